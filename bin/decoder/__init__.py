"""t2t-lite-decoder: translates or parses text with a trained model."""

import argparse
import importlib.util
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.data.text_files import STANDARD_INPUT
from t2t_lite.decoding.options import ENGINES, DecodeOptions, EngineOptions
from t2t_lite.errors import UserError
from t2t_lite.files import check_outputs
from t2t_lite.options import option
from t2t_lite.system.beam import quiet_beam
from t2t_lite.system.installed import check_installed
from t2t_lite.visualization.figures import FORMS, KINDS, check_picture_file

if TYPE_CHECKING:
    from t2t_lite.decoding.loading import ModelSource

_FOR_FILES = ("prefix_file", "constraint_file", "alignments", "terms")


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("decoder", _run, argv, exit_at_once=True)


def _path(text: str) -> str:
    """Parses a local path, or a path in a file system that only Beam reads."""
    return text if cli.is_remote(text) else cli.path(text)


def _kinds(text: str) -> list[str]:
    return [cli.choice_type(KINDS, "kind")(kind) for kind in text.split(",")]


class Flags(cli.RunFlags):
    output_dir: cli.Paths | None = option(
        None,
        "the run directory of the model; several with the same vocabulary form an ensemble",
        required=True,
        one_of=True,
        metavar="RUN[,RUN,...]",
    )
    export_dir: PathLike | None = option(
        None,
        "an export from t2t-lite-export; one for CTranslate2 needs no TensorFlow",
        one_of=True,
        excludes=("checkpoint_path",),  # an export has only one
    )
    engine: str | None = option(
        None,
        "the engine that decodes (default: tensorflow, or that of the export). ctranslate2 is faster; it first exports "
        "the run into exports/ in the run directory",
        choices=ENGINES,
        parse=str,
    )
    search: type[DecodeOptions] = DecodeOptions
    xla_compile: bool | None = EngineOptions.field("xla_compile")
    decode_from_file: PathLike | None = option(
        None, "text to translate, plain or compressed", unset="standard input", group="input", parse=_path
    )
    decode_interactive: bool = option(
        False,
        "prompt for lines, with a history, and print the time that each one takes",
        excludes=(
            *("score_file", "decode_from_file", "decode_to_file", "draw_attention"),
            *("prefix_file", "constraint_file", "alignments"),
        ),
    )
    tokenizer: str | None = option(
        None,
        "parsing: blanks: split lines at spaces (default); treebank: split plain text as in the Penn Treebank",
        choices=("blanks", "treebank"),
        parse=str,
    )
    target_language: str | None = option(
        None, "the target language of a multilingual model, such as fra: puts >>fra<< at the start of each line"
    )
    prefix_file: PathLike | None = option(
        None, "start translation n with line n of this file; an empty line means no prefix"
    )
    constraint_file: PathLike | None = option(
        None, "include the tab-separated phrases in line n of this file in translation n; an empty line means none"
    )
    terms: PathLike | None = option(
        None,
        "a glossary with TERM<tab>TRANSLATION on each line: include the translation of each term that occurs in a line",
    )
    score_file: PathLike | None = option(
        None,
        "score the pairs INPUT<tab>TRANSLATION of this file instead of translating",
        excludes=("decode_from_file", *_FOR_FILES),
    )
    batch_lines: int | None = option(
        None,
        "maximum number of lines that are sorted by length and translated together",
        unset="2048 for a file; for standard input, the available lines, up to 64",
        at_least=1,
    )
    decode_to_file: PathLike | None = option(
        None, "the output file, which appears once it is complete (.gz: compressed)", group="output", parse=_path
    )
    alignments: PathLike | None = option(None, "write word alignments, as i-j, to this file (.gz: compressed)")
    n_best_format: str | None = option(
        None,
        "with --decode_hparams=return_beams=True: json: a list for each line (default); text: a line N ||| TEXT ||| "
        "SCORE for each hypothesis of line N, as in Moses, where N counts from 0",
        choices=("json", "text"),
        excludes=("score_file", "decode_interactive", "draw_attention", "runner"),
    )
    draw_trees: PathLike | None = option(
        None,
        "parsing: draw the trees to this file, as SVG if it ends in .svg, otherwise as text",
        metavar="FILE.svg",
        needs=("decode_to_file",),
        excludes=("score_file",),
    )
    alignment_layer: int | None = option(
        None,
        "the decoder layer, from 0, whose attention is averaged over its heads",
        unset="the one that aligned best on dev when training ended",
        parse=int,
    )
    draw_attention: PathLike | None = option(
        None,
        "draw the attention weights as in figures 3 to 5 of the paper: .html shows up to 20 lines with all layers and "
        "heads, the other formats show the first line",
        group="pictures of attention",
        metavar="FILE.html|.svg|.png|.pdf",
    )
    kind: Sequence[str] | None = option(
        None,
        "encoder, decoder, cross",
        unset="all in .html, else encoder",
        metavar="KIND,...",
        parse=_kinds,
        needs=("draw_attention",),
    )
    layers: Sequence[int] | None = option(
        None,
        "layers from 0; -1 is the last",
        unset="all in .html, else the one that corresponds to the paper's layer 5 of 6",
        metavar="N,...",
        needs=("draw_attention",),
    )
    heads: Sequence[int] | None = option(None, "heads from 0", unset="all", metavar="N,...", needs=("draw_attention",))
    form: str | None = option(
        None,
        "lines as in the paper (default), a matrix, or an overview of all heads with their measures",
        choices=FORMS,
        parse=str,
        needs=("draw_attention",),
    )
    words: bool = option(False, "show words instead of subwords", needs=("draw_attention",))
    query: str | None = option(
        None,
        "draw only the lines of one word, or of the token with this index (from 0)",
        metavar="WORD|N",
        needs=("draw_attention",),
    )
    runner: str | None = option(
        None,
        "decode the files 'DIR/*.txt' into the folder --decode_to_file on Apache Beam: direct, or a runner's name",
        group="a corpus of many files",
        needs=("decode_from_file", "decode_to_file"),
        excludes=(*_FOR_FILES, "draw_trees", "draw_attention"),
    )
    beam_options: str = option("", "flags for the Beam pipeline, separated by spaces", needs=("runner",))


def make_parser() -> cli.CommandParser:
    about = "Translate a file, or standard input to standard output: N lines in, N lines out, in order."
    return cli.CommandParser("decoder", about, Flags)


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    _check(parser, arguments)
    cli.load_plugins(arguments)
    if arguments.runner:
        check_installed(f"--runner={arguments.runner}", {"apache_beam": "Apache Beam"}, "beam")
        with quiet_beam():
            from t2t_lite.bin.decoder.corpus import decode_corpus

            decode_corpus(arguments)
        return
    from t2t_lite.bin.decoder import files

    # Check everything possible before loading the model, because TensorFlow takes seconds.
    model = files.chosen_model(arguments)
    _check_trees(arguments, model)
    files.decode(arguments, model, *_files(arguments, model.files))
    if arguments.decode_to_file and len(arguments.output_dir or ()) == 1:
        (run,) = arguments.output_dir
        is_there = importlib.util.find_spec("ctranslate2") and not (arguments.terms or arguments.constraint_file)
        form = "ctranslate2" if is_there else "keras"
        cli.say_next("export", f"--output_dir={run}", f"--format={form}", "--export_dir=EXPORT", to=cli.warn)


def _check(parser: cli.CommandParser, arguments: argparse.Namespace) -> None:
    if arguments.draw_attention:
        if arguments.engine == "ctranslate2":
            raise UserError("--draw_attention: CTranslate2 returns no attention weights of single heads; omit --engine")
        check_picture_file(Path(arguments.draw_attention), "draw_attention")
    for name in () if arguments.runner else ("decode_from_file", "decode_to_file"):
        if cli.is_remote(path := getattr(arguments, name) or ""):
            parser.error(f"--{name}={path}: pass --runner, with which Beam reads it, or copy the file to this machine")


def _check_trees(arguments: argparse.Namespace, model: "ModelSource") -> None:
    settings, writes_trees = model.settings, model.writes_trees
    for flag in () if writes_trees else ("draw_trees", "tokenizer"):
        if getattr(arguments, flag):
            raise UserError(f"--{flag} is for parsing problems; the model in {model.where} writes no trees")
    if settings.only_trees and not writes_trees:
        raise UserError(f"only_trees=True is for parsing; the model in {model.where} writes no trees")
    for flag in _FOR_FILES if writes_trees else ():
        if getattr(arguments, flag):
            raise UserError(f"--{flag} is not for parsing problems; the model in {model.where} writes trees")
    if arguments.draw_trees and Path(arguments.draw_trees).suffix.lower() in (".png", ".pdf", ".jpg", ".jpeg", ".gif"):
        raise UserError(f"--draw_trees={arguments.draw_trees}: trees can only be drawn as .svg or text", status=2)
    if arguments.n_best_format and not settings.return_beams:
        raise UserError("--n_best_format needs --decode_hparams=return_beams=True", status=2)
    if arguments.draw_trees and settings.return_beams:
        raise UserError("--draw_trees draws the best tree of each line; remove return_beams=True", status=2)


def _files(arguments: argparse.Namespace, of_model: list[Path]) -> tuple[list[Path], list[Path], Path | None]:
    """Checks the files and returns (inputs, outputs, picture or None)."""

    def named(*flags: str) -> dict[str, Path]:
        return {f"--{flag}": Path(path) for flag in flags if (path := getattr(arguments, flag)) is not None}

    inputs = named("score_file", "decode_from_file", "prefix_file", "constraint_file")
    if not {"--score_file", "--decode_from_file"} & inputs.keys():
        inputs = {"standard input": STANDARD_INPUT} | inputs
    targets = named("decode_to_file", "alignments")
    for path in (inputs | named("terms")).values():
        if path == STANDARD_INPUT:
            continue
        if path.is_dir():
            raise UserError(f"{path} is a directory; pass a file")
        if not path.exists():
            raise UserError(f"no such file: {path}")
    picture = named("draw_trees")
    files = {str(file): file for file in of_model}
    check_outputs(targets | picture | named("draw_attention"), inputs | named("terms") | files)
    return list(inputs.values()), list(targets.values()), next(iter(picture.values()), None)
