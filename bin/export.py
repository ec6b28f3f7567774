"""t2t-lite-export: writes a trained model in a format that other programs read."""

from collections.abc import Sequence

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.bin.cli.option_flags import add_options, given, trust_plugins
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.plugins import load_all


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("export", _run, argv)


def make_parser() -> cli.CommandParser:
    parser = cli.CommandParser(
        "export",
        "Write a trained model, with its vocabularies and a model card, into a directory of its own.",
        runs=True,
    )
    add = parser.add_argument
    add("--output_dir", required=True, type=cli.path, help="the run directory of the model")
    add("--export_dir", required=True, type=cli.path, help="the directory to write")
    add_options(add, ExportOptions, *ExportOptions.declared())
    return parser


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)

    load_all(arguments.t2t_usr_dir)
    trust_plugins(arguments, [arguments.output_dir])
    exported = t2t.export(arguments.output_dir, arguments.export_dir, warn=cli.warn, **given(arguments, ExportOptions))
    size = sum(entry["bytes"] for entry in exported.content["files"].values())
    print(f"{exported.path}: {exported.format}, {size / 2**20:,.1f} MiB; how to use it: {exported.path / 'README.md'}")
