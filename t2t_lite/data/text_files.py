"""Reading text files, plain or gzip, a sentence a line."""

import codecs
import contextlib
import gzip
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from t2t_lite.data.problem import Example, Unusable, WithMore
from t2t_lite.errors import UserError

_GZIP = b"\x1f\x8b"  # what gzip files begin with


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file, plain or gzip, without their ends ("\\n" or "\\r\\n").

    Raises:
      UserError: if there is no such file, it is a damaged gzip file, or a line is not UTF-8 (with its number).
    """
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            yield decode_line(line, str(path), number)


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Opens a file, plain or gzip whatever it is called, to read its bytes inside the block.

    Raises:
      UserError: if there is no such file, it is in UTF-16, or it turns out to be a damaged gzip file.
    """
    try:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open(path, "rb"))
            start = file.peek(2)[:2]
            if path.suffix == ".gz" or start == _GZIP:
                file = stack.enter_context(gzip.open(file))
                start = b"" if path.suffix == ".gz" and start != _GZIP else file.peek(2)[:2]
            if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise UserError(f"{path} is in UTF-16; convert it: iconv -f UTF-16 -t UTF-8")
            yield file
    except FileNotFoundError as error:
        raise UserError(f"no such file: {path}") from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a directory; give a file") from error
    except PermissionError as error:
        raise UserError(f"{path} may not be read by you; change its permissions, or give another file") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file ({error}); fetch or write it again") from error


def decode_line(line: bytes, where: str, number: int) -> str:
    """Returns a line of text without its end. `where` and `number` name it in the UserError for text not in UTF-8."""
    try:
        # A byte-order mark at the start of a file is no part of its text.
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{where}, line {number}: not UTF-8 ({error.reason} at byte {error.start}); convert it first"
        ) from error
    return text[: -2 if text.endswith("\r\n") else -1] if text.endswith("\n") else text


def read_parallel(inputs: Path, targets: Path) -> Iterator[Example]:
    """Yields the pairs of two files with a sentence a line, those with an empty side, too.

    Raises:
      UserError: if one file has more lines than the other, or on text that is not UTF-8.
    """
    ended = object()
    left, right = read_lines(inputs), read_lines(targets)
    count = 0
    while True:
        pair = next(left, ended), next(right, ended)
        if pair[0] is ended or pair[1] is ended:
            break
        count += 1
        yield Example(*pair)
    if pair[0] is not pair[1]:
        longer, shorter = (targets, inputs) if pair[0] is ended else (inputs, targets)
        raise UserError(
            f"{longer} has more lines than {shorter} ({count}); line n of one must answer line n of the other"
        )


def read_any_parallel(inputs: Path, targets: Path) -> Iterator[Example]:
    """Yields the pairs of two files with a sentence a line, whatever is in them: a pair for each line of the longer.

    What is no text is an `Unusable` that says why: a line that is not UTF-8, or that the other file does not have.
    """
    missing = Unusable("a line that the other file does not have")
    for pair in itertools.zip_longest(_any_lines(inputs), _any_lines(targets), fillvalue=missing):
        yield Example(*pair)


def read_tsv(path: Path) -> Iterator[Example]:
    """Yields the pairs of a file with inputs, a tab and targets in each line.

    Of a line with more columns the first two are taken; its targets are `WithMore`. A line with one column only, or
    that is not UTF-8, is a pair with an `Unusable` that says so.
    """
    for line in _any_lines(path):
        columns = line.split("\t")
        if isinstance(line, Unusable):
            yield Example(line, line)
        elif len(columns) < 2:
            yield Example(line, Unusable("a line without a tab"))
        else:
            yield Example(columns[0], columns[1] if len(columns) == 2 else WithMore(columns[1]))


def _any_lines(path: Path) -> Iterator[str]:
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                text = decode_line(line, str(path), number)
            except UserError:
                yield Unusable("a line that is not UTF-8")
            else:
                yield text if "\0" not in text else Unusable("a line with NUL characters, as UTF-16 has")
