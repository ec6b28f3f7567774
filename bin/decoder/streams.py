"""Decodes standard input, and answers each line as soon as possible."""

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

from t2t_lite.bin import cli
from t2t_lite.bin.decoder.outputs import OutputWriter
from t2t_lite.data.text_files import lenient_lines
from t2t_lite.decoding.translator import Translator
from t2t_lite.parsing.parser import Parser
from t2t_lite.trees.drawing import text_art
from t2t_lite.trees.tree import parse_brackets

_Line = TypeVar("_Line")

# Maximum number of waiting input lines that are translated together.
WAITING_LINES = 64


def waiting_blocks(lines: Iterator[_Line], most: int) -> Iterator[list[_Line]]:
    """Yields blocks of the currently available lines: at least one line, at most `most`.

    A thread reads the lines, so that available lines never wait for lines that have not arrived yet.
    """
    waiting: queue.Queue[Any] = queue.Queue(maxsize=2 * most)
    end = EOFError()  # follows the last line, unless reading them raised something else

    def read() -> None:
        last: BaseException = end
        try:
            for line in lines:
                waiting.put(line)
        except BaseException as error:
            last = error
        waiting.put(last)

    threading.Thread(target=read, daemon=True).start()
    while True:
        block = [waiting.get()]
        with contextlib.suppress(queue.Empty):
            while len(block) < most and not isinstance(block[-1], BaseException):
                block.append(waiting.get_nowait())
        last = block.pop() if isinstance(block[-1], BaseException) else None
        if block:
            yield block
        if last is end:
            return
        if last is not None:
            raise last


def decode_stream(
    lines: Iterator[tuple[str, ...]], writer: OutputWriter, batch_lines: int | None, output: TextIO
) -> None:
    first_line = 1
    for block in waiting_blocks(lines, batch_lines or WAITING_LINES):
        output.writelines(line + "\n" for line in writer.outputs_of(block, first_line)[0])
        output.flush()
        first_line += len(block)


def decode_interactively(translator: Translator | Parser) -> None:
    """Prompts for lines until the input ends. Prints each translation with its time, and draws trees."""
    draws = isinstance(translator, Parser)
    if sys.stdin.isatty():
        # Traces the search while the user types, which takes several times as long as a translation.
        def warm_up() -> None:
            with contextlib.suppress(Exception):  # the first typed line will raise it again
                translator.translate(["a b c"])

        threading.Thread(target=warm_up, daemon=True).start()
    with _history():
        for number, line in enumerate(_lines(), start=1):
            start = time.perf_counter()
            (best,) = translator.translate([line], return_scores=True, first_line=number)
            seconds = time.perf_counter() - start
            print(best.text, flush=True)
            if draws and best.text:
                print(text_art(parse_brackets(best.text)[0]), flush=True)
            print(f"  {seconds:.3f} s, score {best.score:.3f}, log-probability {best.log_prob:.3f}", file=sys.stderr)


def _lines() -> Iterator[str]:
    if not sys.stdin.isatty():
        yield from lenient_lines(sys.stdin.buffer, "standard input", cli.warn)
        return
    while True:
        try:
            yield input("> ")
        except EOFError:
            return
        except UnicodeDecodeError:
            cli.warn("the line was not UTF-8; set the terminal to UTF-8")


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Makes the lines of earlier sessions available inside the block, and saves those of this session at its end."""
    try:
        import readline
    except ImportError:  # this Python has no readline, so the prompt has no history
        readline = None
    if readline is None or not sys.stdin.isatty():
        yield
        return
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = state / "t2t-lite" / "decoder_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.set_history_length(1000)
            readline.write_history_file(path)
