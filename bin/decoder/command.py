"""t2t-lite-decoder: translates or parses text with a trained model."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.bin.cli.option_flags import add_options
from t2t_lite.bin.decoder import attention
from t2t_lite.decoding.engine import ENGINES
from t2t_lite.decoding.options import DecodeOptions, EngineOptions
from t2t_lite.errors import UserError
from t2t_lite.files import check_outputs
from t2t_lite.plugins import load_all
from t2t_lite.system.beam import quiet_beam
from t2t_lite.system.installed import check_installed

# Flags that cannot be combined. An export has only one checkpoint.
_EXCLUSIVE = (
    ("decode_interactive", "decode_to_file"),
    ("score_file", "prefix_file"),
    ("score_file", "constraint_file"),
    ("score_file", "alignments"),
    ("draw_trees", "score_file"),
    ("export_dir", "checkpoint_path"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("decoder", _run, argv, exit_at_once=True)


def make_parser() -> cli.CommandParser:
    parser = cli.CommandParser(
        "decoder",
        "Translate a file, or standard input to standard output: N lines in, N lines out, in order.",
        runs=True,
    )
    which = parser.add_mutually_exclusive_group(required=True).add_argument
    which(
        "--output_dir",
        type=cli.paths,
        metavar="RUN[,RUN,...]",
        help="the run directory of the model; several with the same vocabulary form an ensemble",
    )
    which("--export_dir", type=cli.path, help="an export from t2t-lite-export; one for CTranslate2 needs no TensorFlow")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="the engine that decodes (default: tensorflow, or that of the export). ctranslate2 is faster; it first "
        "exports the run into exports/ in the run directory",
    )
    add_options(parser.add_argument, DecodeOptions, "checkpoint_path", "decode_hparams")
    add_options(parser.add_argument, EngineOptions, "xla_compile")
    _add_input(parser)
    _add_output(parser)
    attention.add_flags(parser)
    _add_cluster(parser)
    return parser


def _add_input(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("input").add_argument
    add("--decode_from_file", type=_path, help="text to translate, plain or .gz (default: standard input)")
    add(
        "--decode_interactive",
        action="store_true",
        help="prompt for lines, with a history, and print the time that each one takes",
    )
    add(
        "--tokenizer",
        choices=("blanks", "treebank"),
        help="parsing: blanks: split lines at spaces (default); treebank: split plain text as in the Penn Treebank",
    )
    add(
        "--prefix_file",
        type=cli.path,
        help="start translation n with line n of this file; an empty line means no prefix",
    )
    add(
        "--constraint_file",
        type=cli.path,
        help="include the tab-separated phrases in line n of this file in translation n; an empty line means none",
    )
    add("--score_file", type=cli.path, help="score the pairs INPUT<tab>TRANSLATION of this file instead of translating")
    add(
        "--batch_lines",
        type=cli.whole_number(1),
        help="maximum number of lines that are sorted by length and translated together (default: 2048 for a file; for "
        "standard input, the available lines, up to 64)",
    )


def _path(text: str) -> str:
    """Parses a local path, or a path in a file system that only Beam reads."""
    return text if cli.is_remote(text) else cli.path(text)


def _add_output(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("output").add_argument
    add("--decode_to_file", type=_path, help="the output file, which appears once it is complete (.gz: compressed)")
    add("--alignments", type=cli.path, help="write word alignments, as i-j, to this file (.gz: compressed)")
    add(
        "--draw_trees",
        type=cli.path,
        metavar="FILE.svg",
        help="parsing: draw the trees to this file, as SVG if it ends in .svg, otherwise as text",
    )
    add(
        "--alignment_layer",
        type=int,
        help="the decoder layer, from 0, whose attention is averaged over its heads (default: the one "
        "that aligned best on dev when training ended)",
    )


def _add_cluster(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("a corpus of many files").add_argument
    add(
        "--runner",
        help="decode the files 'DIR/*.txt' into the folder --decode_to_file on Apache Beam: direct, or a runner's name",
    )
    add("--beam_options", default="", help="flags for the Beam pipeline, separated by spaces")


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    _check(parser, arguments)
    if arguments.runner:
        load_all(arguments.t2t_usr_dir)
        check_installed(f"--runner={arguments.runner}", {"apache_beam": "Apache Beam"}, "beam")
        with quiet_beam():
            from t2t_lite.bin.decoder.corpus import decode_corpus

            decode_corpus(arguments)
    else:
        _decode(arguments)


def _check(parser: cli.CommandParser, arguments: argparse.Namespace) -> None:
    modes = ("decode_interactive", "score_file", "decode_from_file")
    modes_used = [name for name in modes if getattr(arguments, name)]
    if len(modes_used) > 1:
        parser.error(f"--{modes_used[0]} and --{modes_used[1]} cannot be combined")
    from_file = arguments.decode_from_file or arguments.score_file
    for name in ("prefix_file", "constraint_file", "alignments"):
        if getattr(arguments, name) and not from_file:
            parser.error(f"--{name} needs --decode_from_file")
    for first, second in _EXCLUSIVE:
        if getattr(arguments, first) and getattr(arguments, second):
            parser.error(f"--{first} and --{second} cannot be combined")
    if arguments.alignments and not arguments.decode_to_file:
        parser.error("--alignments needs --decode_to_file")
    if arguments.draw_trees and not arguments.decode_to_file:
        parser.error("--draw_trees needs --decode_to_file")
    attention.check(parser, arguments)
    _check_corpus(parser, arguments)


def _check_corpus(parser: cli.CommandParser, arguments: argparse.Namespace) -> None:
    ends = ("decode_from_file", "decode_to_file")
    if not arguments.runner:
        if arguments.beam_options:
            parser.error("--beam_options needs --runner")
        for name in ends:
            if cli.is_remote(path := getattr(arguments, name) or ""):
                parser.error(
                    f"--{name}={path}: pass --runner, with which Beam reads it, or copy the file to this machine"
                )
        return
    for name in ends:
        if not getattr(arguments, name):
            parser.error(f"--runner needs --{name}")
    for name in ("prefix_file", "constraint_file", "alignments", "draw_trees", "draw_attention"):
        if getattr(arguments, name):
            parser.error(f"--runner and --{name} cannot be combined")


def _decode(arguments: argparse.Namespace) -> None:
    from t2t_lite.bin.decoder import models, trees

    load_all(arguments.t2t_usr_dir)
    # Check everything possible before loading the model, because TensorFlow takes seconds.
    model = models.chosen_model(arguments)
    trees.check(arguments, model)
    inputs, targets, picture = _files(arguments, model.files)
    from t2t_lite.bin.decoder import decode

    decode.decode(arguments, model, inputs, targets, picture)


def _files(arguments: argparse.Namespace, of_model: list[Path]) -> tuple[list[Path], list[Path], Path | None]:
    """Checks the files and returns (inputs, outputs, picture or None)."""

    def named(*flags: str) -> dict[str, Path]:
        return {f"--{flag}": Path(path) for flag in flags if (path := getattr(arguments, flag)) is not None}

    inputs = named("score_file", "decode_from_file", "prefix_file", "constraint_file")
    targets = named("decode_to_file", "alignments")
    for path in inputs.values():
        if path.is_dir():
            raise UserError(f"{path} is a directory; pass a file")
        if not path.exists():
            raise UserError(f"no such file: {path}")
    picture = named("draw_trees")
    files = {str(file): file for file in of_model}
    check_outputs(
        targets | picture | named("draw_attention"), (inputs or {"standard input": Path("/dev/stdin")}) | files
    )
    return list(inputs.values()), list(targets.values()), next(iter(picture.values()), None)
