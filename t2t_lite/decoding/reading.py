"""Lines of text of any kind, one for each line end: what is not UTF-8 is replaced, what is too long is cut."""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

# More bytes of a line are not kept in memory. Inputs are cut at far fewer tokens (`max_input_length`).
MAX_BYTES = 2**20


def lines_of(stream: BinaryIO, name: str, warn: Callable[[str], None]) -> Iterator[str]:
    """Yields the lines of a stream without their ends ("\\n" or "\\r\\n"), each as soon as it is read.

    Args:
      stream: a file or standard input, in bytes.
      name: what warnings call it.
      warn: takes a line about what was replaced or cut.
    """
    number = 0
    while line := stream.readline(MAX_BYTES):
        number += 1
        where, left_out, more = f"{name}, line {number}", 0, line
        while not more.endswith(b"\n") and (more := stream.readline(MAX_BYTES)):
            left_out += len(_without_end(more))
        if left_out:
            warn(f"{where}: {left_out:,} bytes beyond the first {MAX_BYTES:,} are left out")
        elif more.endswith(b"\n"):  # perhaps read by itself
            line = _without_end(line.removesuffix(b"\n") + b"\n")
        text = _decoded(line, not left_out, where, warn)
        # A byte-order mark at the start of a file is no part of its text.
        yield text.removeprefix("\ufeff") if number == 1 else text


def _without_end(line: bytes) -> bytes:
    return re.sub(rb"\r?\n\Z", b"", line)


def _decoded(line: bytes, whole: bool, where: str, warn: Callable[[str], None]) -> str:
    """Returns a line as text; of one that is not whole, a character that is cut at its end is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(line, final=whole)
    except UnicodeDecodeError as error:
        warn(f"{where}: not UTF-8 ({error.reason} at byte {error.start}); replaced by U+FFFD")
        return codecs.getincrementaldecoder("utf-8")(errors="replace").decode(line, final=whole)
