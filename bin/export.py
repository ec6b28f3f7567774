"""t2t-lite-export: writes a trained model in a format that other programs read."""

from collections.abc import Sequence
from os import PathLike

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.options import option


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("export", _run, argv)


class Flags(cli.RunFlags):
    output_dir: PathLike | None = option(None, "the run directory of the model", required=True)
    export_dir: PathLike | None = option(None, "the directory to write", required=True)
    options: type[ExportOptions] = ExportOptions


def make_parser() -> cli.CommandParser:
    about = "Write a trained model, with its vocabularies and a model card, into a directory of its own."
    return cli.CommandParser("export", about, Flags)


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)
    cli.load_plugins(arguments, [arguments.output_dir])
    options = cli.given(arguments, ExportOptions)
    exported = t2t.export(arguments.output_dir, arguments.export_dir, warn=cli.warn, **options)
    size = sum(entry["bytes"] for entry in exported.content["files"].values())
    print(f"{exported.path}: {exported.format}, {size / 2**20:,.1f} MiB; how to use it: {exported.path / 'README.md'}")
    if exported.format not in ("saved_model", "argos"):  # which other programs serve
        cli.say_next("serve", f"--export_dir={arguments.export_dir}")
