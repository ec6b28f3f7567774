"""t2t-lite-import: converts a model of another toolkit into a run directory; one for CTranslate2 into an export."""

from collections.abc import Sequence
from os import PathLike

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.importing.options import KINDS, ImportOptions
from t2t_lite.options import option


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("import", _run, argv)


class Flags(cli.Flags):
    model: PathLike | None = option(
        None, "the folder of the model, a checkpoint or .npz in it, or the export", positional=True, metavar="DIR"
    )
    output_dir: PathLike | None = option(None, "the run directory to write; for ctranslate2, the export", required=True)
    kind: str | None = option(
        None,
        "t2t: a tensor2tensor transformer; marian: a model of Marian or OPUS-MT (.npz); huggingface: a folder of a "
        "MarianMTModel; opennmt_tf: a Transformer of OpenNMT-tf 2; ctranslate2: a folder for CTranslate2 "
        "of another converter, such as those of Argos Translate; keras: an export in that format",
        flag="from",
        required=True,
        choices=KINDS,
        parse=str,
    )
    options: type[ImportOptions] = ImportOptions


def make_parser() -> cli.CommandParser:
    about = "Convert a trained model of another toolkit, or an export, into a run directory."
    return cli.CommandParser("import", about, Flags)


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)
    cli.load_plugins(arguments)
    options = cli.given(arguments, ImportOptions)
    imported = t2t.import_model(arguments.model, arguments.output_dir, kind=arguments.kind, warn=cli.warn, **options)
    if arguments.kind == "ctranslate2":
        print(f"{imported.path}: an export\nNext: t2t-lite-serve --export_dir={imported.path}")
    else:
        print(f"{imported.checkpoint}: {imported.num_parameters:,} parameters, problem {imported.problem}")
