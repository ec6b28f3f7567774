"""Decodes the files or streams that the flags of t2t-lite-decoder name."""

import argparse
import contextlib
import dataclasses
import gzip
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from t2t_lite.bin import cli
from t2t_lite.bin.decoder import attention, trees
from t2t_lite.bin.decoder.files import decode_file
from t2t_lite.bin.decoder.models import ChosenModel
from t2t_lite.bin.decoder.outputs import OutputWriter
from t2t_lite.bin.decoder.streams import decode_interactively, decode_stream
from t2t_lite.data.text_files import lenient_lines
from t2t_lite.decoding.translator import Translator
from t2t_lite.files import written_whole
from t2t_lite.parsing.parser import Parser
from t2t_lite.trees.tokenizer import TOKENIZERS

# The flags that outputs depend on, besides settings.
_SHAPING = ("score_file", "prefix_file", "constraint_file", "alignment_layer", "tokenizer")


def decode(
    arguments: argparse.Namespace, model: ChosenModel, inputs: list[Path], targets: list[Path], picture: Path | None
) -> None:
    """Decodes with a model that was checked; the files are those that `_files` of the command returns."""
    translator = loaded(model, arguments)
    if arguments.decode_interactive:
        decode_interactively(translator)
        return
    pairs, lines = _decode_lines(arguments, translator, inputs, targets)
    if picture:
        trees.draw_trees(targets[0], picture, cli.warn)
    if arguments.draw_attention:
        attention.draw(arguments, translator, pairs, lines)


def loaded(model: ChosenModel, arguments: argparse.Namespace) -> Translator | Parser:
    """Loads and checks a model; if it writes trees, returns a parser with the tokenizer that the flags select."""
    translator = model.load()
    if arguments.draw_attention:
        attention.check_model(arguments, translator)
    if not model.writes_trees:
        return translator
    return Parser(translator, TOKENIZERS[arguments.tokenizer or "blanks"])


def _decode_lines(
    arguments: argparse.Namespace,
    translator: Translator | Parser,
    inputs: list[Path],
    targets: list[Path],
) -> tuple[list[tuple[str, str]], int]:
    """Decodes all lines of the files, or standard input. Returns (`pairs`, `num_pairs`) of `OutputWriter`."""
    writer = OutputWriter(translator, arguments)
    if inputs:
        made_by = {
            # A pipe cannot be read again, so such a run cannot be resumed. The time makes it unique.
            "input": None if all(path.is_file() for path in inputs) else time.time(),
            **translator.engine.description(),
            "settings": dataclasses.asdict(translator.decode_hparams),
            "flags": [getattr(arguments, name) for name in _SHAPING],
        }
        decode_file(inputs, targets, writer, arguments.batch_lines, made_by, cli.warn)
    else:
        lines = ((line,) for line in lenient_lines(sys.stdin.buffer, "standard input", cli.warn))
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(_opened_whole(targets[0])) if targets else sys.stdout
            decode_stream(lines, writer, arguments.batch_lines, output)
    if isinstance(translator, Parser) and translator.parsed:
        cli.warn(translator.report())
    return writer.pairs, writer.num_pairs


@contextlib.contextmanager
def _opened_whole(path: Path) -> Iterator[TextIO]:
    """Opens a text file for writing, with gzip if named .gz. The file gets its final name only once it is complete."""
    opener: Callable[..., TextIO] = gzip.open if path.suffix == ".gz" else open
    with written_whole(path) as partial, opener(partial, "wt", encoding="utf-8") as file:
        yield file
