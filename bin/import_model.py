"""t2t-lite-import: converts a model of another toolkit into a run directory."""

from collections.abc import Sequence

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.bin.cli.option_flags import add_options, given
from t2t_lite.importing.options import KINDS, ImportOptions
from t2t_lite.plugins import load_all


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("import", _run, argv)


def make_parser() -> cli.CommandParser:
    parser = cli.CommandParser("import", "Convert a trained tensor2tensor model, or an export, into a run directory.")
    add = parser.add_argument
    add("model", metavar="DIR", type=cli.path, help="the folder of the model or a checkpoint in it, or the export")
    add("--output_dir", required=True, type=cli.path, help="the run directory to write")
    kinds = "t2t: a tensor2tensor transformer; keras: an export in that format"
    add("--from", required=True, dest="kind", choices=KINDS, help=kinds)
    add_options(add, ImportOptions, *ImportOptions.declared())
    return parser


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)

    load_all(arguments.t2t_usr_dir)
    options = given(arguments, ImportOptions)
    imported = t2t.import_model(arguments.model, arguments.output_dir, kind=arguments.kind, warn=cli.warn, **options)
    print(f"{imported.checkpoint}: {imported.num_parameters:,} parameters, problem {imported.problem}")
