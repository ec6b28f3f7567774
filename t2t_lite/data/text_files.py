"""Reads text files, plain or compressed, one sentence per line: strictly for training data, leniently for other input.

Also says how texts are compared, to find repeated ones.
"""

import codecs
import contextlib
import functools
import hashlib
import importlib
import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import NamedTuple, Protocol

from t2t_lite.data.problem import Example, Unusable, WithMore
from t2t_lite.errors import UserError

# The decoder keeps at most this many bytes of a line in memory. Its model reads far less (`max_input_length`).
MAX_BYTES = 2**20
# Hashes use only this many characters of a text, and samples keep no more, to limit memory.
COMPARED_CHARACTERS = 2000
REPEATED = "a repeated pair"
STANDARD_INPUT = Path("/dev/stdin")


class _Format(NamedTuple):
    """A format of compressed files."""

    name: str
    module: str  # of the standard library
    mark: bytes  # the first bytes


_FORMATS = {
    ".gz": _Format("gzip", "gzip", b"\x1f\x8b"),
    ".bz2": _Format("bzip2", "bz2", b"BZh"),
    ".xz": _Format("xz", "lzma", b"\xfd7zXZ\0"),
}
# The first bytes of other compressed files, and the programs that unpack them.
_UNPACKED_BY = {b"\x28\xb5\x2f\xfd": "zstd -d", b"PK\3\4": "unzip", b"7z\xbc\xaf": "7z x", b"\4\x22\x4d\x18": "lz4 -d"}
# Formats that are not a text per line, by the ending of the name: the format, and how to convert it.
_TO_TSV = r"""python -c 'import csv, sys; [print(*row, sep="\t") for row in csv.reader(sys.stdin)]'"""
_JSON = "JSON", "write its fields as text, such as: jq -r '[.FIELD, .FIELD] | @tsv'"
_CSV = "CSV", f"convert it to tab-separated columns: {_TO_TSV}"
_NOT_LINES = {".json": _JSON, ".jsonl": _JSON, ".ndjson": _JSON, ".csv": _CSV}
# UTF-32 first, because its mark begins with that of UTF-16.
_OTHER_ENCODINGS = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}


class ByteLines(Protocol):
    def readline(self, limit: int = -1, /) -> bytes:
        """Returns the next line, or its next `limit` bytes."""
        ...


def split_lines(
    stream: ByteLines, name: str, invalid: Callable[[str, str, str], str], max_bytes: int = -1
) -> Iterator[str]:
    """Yields the lines of a stream without line ends ("\n" or "\r\n"), each as soon as it is read.

    Drops a byte-order mark at the start of a line: the stream may be several files that `cat` joined. Cuts lines to
    `max_bytes`, unless -1, which bounds the memory. `invalid` is called for a line that is not UTF-8 or is too long; it
    returns the text to yield instead, or raises. Its arguments: the line's name ("in.txt, line 3"), the problem, the
    line's text with U+FFFD for invalid bytes.
    """
    number = 0
    while line := stream.readline(max_bytes):
        number += 1
        left_out, more = 0, line
        while max_bytes >= 0 and not more.endswith(b"\n") and (more := stream.readline(max_bytes)):
            left_out += len(_without_end(more))
        if left_out == 0 and more.endswith(b"\n"):  # the line end may have been read separately
            line = _without_end(line.removesuffix(b"\n") + b"\n")
        problem = ""
        try:
            text = _decoded(line, "strict", is_cut=left_out > 0)
        except UnicodeDecodeError as error:
            text = _decoded(line, "replace", is_cut=left_out > 0)
            problem = f"not UTF-8 ({error.reason} at byte {error.start})"
        text = text.lstrip("\ufeff")
        if left_out:
            cut = f"{left_out:,} bytes beyond the first {max_bytes:,} are left out"
            text = invalid(f"{name}, line {number}", cut, text)
        yield invalid(f"{name}, line {number}", problem, text) if problem else text


def _decoded(line: bytes, errors: str, is_cut: bool) -> str:
    """Decodes UTF-8; drops an incomplete character at the end of a cut line."""
    if not is_cut:
        return line.decode("utf-8", errors=errors)
    return codecs.getincrementaldecoder("utf-8")(errors=errors).decode(line)


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line


def refuse(where: str, problem: str, text: str) -> str:
    raise UserError(f"{where}: {problem}; convert the file to UTF-8")


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file, plain or compressed, without line ends ("\n" or "\r\n")."""
    with open_bytes(path) as file:
        yield from split_lines(file, str(path), refuse)


def lenient_lines(stream: ByteLines, name: str, warn: Callable[[str], None]) -> Iterator[str]:
    """Yields the lines of any input. Replaces invalid bytes with U+FFFD, cuts long lines, and warns about each."""

    def invalid(where: str, problem: str, text: str) -> str:
        warn(f"{where}: {problem}" + ("; invalid bytes become U+FFFD" if problem.startswith("not UTF-8") else ""))
        return text

    return split_lines(stream, name, invalid, MAX_BYTES)


@contextlib.contextmanager
def open_bytes(path: Path, is_text: bool = True) -> Iterator[BufferedIOBase]:
    """Opens a text file for reading bytes, see `unpacked`. Refuses JSON and CSV by their names."""
    plain = Path(path.name.removesuffix(path.suffix) if path.suffix in _FORMATS else path.name)
    if refused := _NOT_LINES.get(plain.suffix.lower()):
        raise UserError(f"{path} is {refused[0]}, but a file must have one sentence per line; {refused[1]}")
    try:
        with open(path, "rb") as file, unpacked(file, str(path), is_text) as content:
            yield content
    except FileNotFoundError as error:
        raise UserError(f"no such file: {path}") from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a directory; pass a file") from error
    except PermissionError as error:
        raise UserError(f"no permission to read {path}; change its permissions, or pass another file") from error


@contextlib.contextmanager
def unpacked(file: BufferedReader, name: str, is_text: bool = True) -> Iterator[BufferedIOBase]:
    """Opens the content of a file: that of gzip, bzip2 and xz, recognised by the first bytes, or else the file itself.

    Refuses other compressed files; and, if it is text, UTF-16 and UTF-32, and lines that end with CR only.
    """
    content, start = file, file.peek(6)
    if program := next((program for mark, program in _UNPACKED_BY.items() if start.startswith(mark)), None):
        raise UserError(f"{name} is compressed, but not with gzip, bzip2 or xz; unpack it first: {program}")
    of_name = _FORMATS.get(Path(name).suffix) if start else None
    form = next((form for form in _FORMATS.values() if start.startswith(form.mark)), of_name)
    damaged: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
    try:
        module = importlib.import_module(form.module) if form else None
    except ImportError as error:
        raise UserError(f"{name}: this Python was built without {error.name}; unpack the file first") from error
    try:
        with contextlib.ExitStack() as stack:
            if module:
                damaged = (*damaged, getattr(module, "LZMAError", EOFError))
                content = stack.enter_context(module.open(file))
                start = content.peek(6)
            for encoding, marks in _OTHER_ENCODINGS.items() if is_text else ():
                if start.startswith(marks):
                    raise UserError(f"{name} is in {encoding}; convert it: iconv -f {encoding} -t UTF-8")
            if is_text and b"\r" in start[:-1] and b"\n" not in start:
                raise UserError(f"the lines of {name} end with CR only, as on old Macs; convert it: tr '\\r' '\\n'")
            yield content
    except damaged as error:
        if not form or getattr(error, "errno", None) is not None:  # an error of the system
            raise
        raise UserError(f"{name} is a damaged {form.name} file ({error}); download or write it again") from error


def read_parallel(inputs: Path, targets: Path) -> Iterator[Example]:
    """Yields the pairs of two files of equal length, including pairs with an empty side."""
    for count, (source, target) in enumerate(itertools.zip_longest(read_lines(inputs), read_lines(targets))):
        if source is None or target is None:
            longer, shorter = (targets, inputs) if source is None else (inputs, targets)
            raise UserError(
                f"{longer} has more lines than {shorter} ({count}); line n of one must correspond to line n of the "
                f"other"
            )
        yield Example(source, target)


def read_any_parallel(inputs: Path, targets: Path, allow_unequal: bool = True) -> Iterator[Example]:
    """Yields the pairs in two files with one sentence per line, one pair for each line of the longer file.

    A line that is not UTF-8 or is missing from the shorter file becomes an `Unusable` with the reason. If lines are
    missing, the end is a UserError unless `allow_unequal`.
    """
    missing = Unusable("a line that the other file does not have")
    count = lacking = 0
    more, fewer = inputs, targets
    for pair in itertools.zip_longest(_any_lines(inputs), _any_lines(targets), fillvalue=missing):
        count += 1
        if pair[0] is missing or pair[1] is missing:
            lacking += 1
            more, fewer = (inputs, targets) if pair[1] is missing else (targets, inputs)
        yield Example(*pair)
    if lacking and not allow_unequal:
        raise UserError(
            f"{more} has {count:,} lines, but {fewer} has {count - lacking:,}; line n of one must be the translation "
            f"of line n of the other: correct the files, or pass `allow_unequal` to drop the last lines of the longer"
        )


def read_tsv(path: Path, columns: tuple[int, int] = (0, 1)) -> Iterator[Example]:
    """Yields the pairs in a file that has inputs, a tab and targets on each line, or has them in other columns.

    If a line has more columns, the targets become `WithMore`. A line that has too few columns or is not UTF-8 becomes a
    pair with an `Unusable`, which contains the reason. If no line has a tab, the end is a UserError.
    """
    first, has_pairs = "", False
    for line in _any_lines(path):
        cells = line.split("\t")
        if isinstance(line, Unusable):
            yield Example(line, line)
        elif len(cells) <= max(columns):
            first = first or line
            yield Example(line, Unusable("a line without a tab"))
        else:
            has_pairs = True
            inputs, targets = (cells[column] for column in columns)
            yield Example(inputs, targets if len(cells) == 2 else WithMore(targets))
    if first and not has_pairs:
        is_json = re.match(r"\[?\s*\{", first)
        advice = f"it looks like JSON: {_JSON[1]}" if is_json else f"if it is CSV, {_CSV[1]}"
        raise UserError(f"no line of {path} has a tab between the two sides; {advice}")


def _any_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a file; a line that is not UTF-8 or contains NUL characters becomes an `Unusable`."""
    with open_bytes(path) as file:
        for text in split_lines(file, str(path), lambda where, problem, text: Unusable("a line that is not UTF-8")):
            if isinstance(text, Unusable) or "\0" not in text:
                yield text
            else:
                yield Unusable("a line with NUL characters, possibly UTF-16")


def text_hash(text: str) -> int:
    """Returns a 64-bit hash of a text that is stable across processes."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def in_split(split: str) -> str:
    return f"its source is also in {split}"


def without_tags(text: str, symbols: tuple[str, ...]) -> str:
    """Returns a source without the tags before it, which are symbols of its vocabulary.

    Sources are compared in this form, because the same sentence with another tag is still the same source. A text that
    has only tags stays as it is.
    """
    pattern = _tags(symbols)
    return pattern.sub("", text, count=1) if pattern else text


@functools.lru_cache
def _tags(symbols: tuple[str, ...]) -> re.Pattern[str] | None:
    longest_first = sorted(filter(str.strip, symbols), key=len, reverse=True)
    # A symbol that is a word is not the start of a longer word.
    tag = rf"(?:{'|'.join(map(re.escape, longest_first))})(?:\s+|(?<=\W))"
    return re.compile(rf"\A(?:{tag})+(?=\S)") if longest_first else None
