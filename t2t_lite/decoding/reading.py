"""Lines of text of any kind, one for each line end: what is not UTF-8 is replaced, what is too long is cut."""

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

# More bytes of a line are not kept in memory. Inputs are cut at far fewer pieces (`max_input_length`).
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
        rest = 0
        while not line.endswith(b"\n") and (more := stream.readline(MAX_BYTES)):
            rest += len(more)
            if more.endswith(b"\n"):
                break
        if rest:
            warn(f"{name}, line {number}: {rest:,} bytes beyond the first {MAX_BYTES:,} are left out")
        try:
            # A byte-order mark at the start of a file is no part of its text.
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            warn(f"{name}, line {number}: not UTF-8 ({error.reason} at byte {error.start}); replaced by U+FFFD")
            text = line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")
        yield re.sub(r"\r?\n\Z", "", text)
