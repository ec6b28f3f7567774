"""Reads files of trees as treebanks have them: a tree a line, or over several lines, with or without empty lines."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_lite.data.text_files import decode_line, open_bytes
from t2t_lite.errors import UserError
from t2t_lite.trees.cleaning import clean
from t2t_lite.trees.tree import Tree, parse_brackets

# No tree has more lines; so much is read before a bracket that is never closed is given up.
_MOST_LINES = 1000
ENDINGS = (".mrg", ".ptb", ".mrg.gz", ".ptb.gz")


class Malformed(NamedTuple):
    """Stands where a tree should be.

    Args:
      where: the file and the line that it begins in.
      reason: what is wrong with it, in a few words.
    """

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


def treebank_files(path: Path) -> list[Path]:
    """Returns the files of a treebank: the path itself, or all .mrg and .ptb files below a folder, in order.

    Raises:
      UserError: if there is none.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"no such file or folder: {path}")
    found = sorted(file for file in path.rglob("*") if file.name.lower().endswith(ENDINGS) and file.is_file())
    if not found:
        raise UserError(f"{path} holds no trees: there is no file that ends in {', '.join(ENDINGS)}")
    return found


def read_trees(path: Path) -> Iterator[Tree | Malformed]:
    """Yields the clean trees of a file, plain or gzip, and a `Malformed` for each that cannot be read.

    What follows a malformed tree is read if it begins a line. A tree without any word is left out.

    Raises:
      UserError: if there is no such file, or it is a damaged gzip file.
    """
    for part in _parts(path):
        for first, text in _whole(part):
            try:
                trees = [clean(tree) for tree in parse_brackets(text)]
            except ValueError as error:
                yield Malformed(f"{path}, line {first}", str(error))
            else:
                yield from (tree for tree in trees if tree is not None)


def _parts(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Yields (number, line) of lines that belong together: as many as it takes until all brackets are closed."""
    lines, depth = [], 0
    for number, line in enumerate(_text_lines(path), start=1):
        if len(lines) >= _MOST_LINES and line.startswith("("):
            yield lines
            lines, depth = [], 0
        if not line.strip():  # may also stand inside of a tree
            continue
        lines.append((number, line))
        depth += line.count("(") - line.count(")")
        if depth <= 0:
            yield lines
            lines, depth = [], 0
    if lines:
        yield lines


def _text_lines(path: Path) -> Iterator[str]:
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                yield decode_line(line, str(path), number)
            except UserError:
                # No word of a tree can be told from what is not UTF-8.
                yield "( not UTF-8"


def _whole(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Returns (number of the first line, text) of each tree or group of trees in some lines.

    Trees begin at the start of a line. If most of such beginnings are whole trees, a bracket is missing somewhere and
    each stands for itself; otherwise the treebank does not indent, and all lines belong together.
    """
    chunks: list[tuple[int, str]] = []
    for number, line in lines:
        if line.startswith("(") or not chunks:
            chunks.append((number, line))
        else:
            chunks[-1] = (chunks[-1][0], f"{chunks[-1][1]}\n{line}")
    balanced = sum(text.count("(") == text.count(")") for _, text in chunks)
    whole = "\n".join(text for _, text in chunks)
    if 2 * balanced < len(chunks) and whole.count("(") == whole.count(")"):
        return [(lines[0][0], whole)]
    return chunks


_WSJ_NAME = re.compile(r"wsj_(\d\d)\d\d\.", re.IGNORECASE)


def section_of(path: Path) -> int | None:
    """Returns the section of the Wall Street Journal part of the Penn Treebank that a file belongs to, by its number.

    "wsj_2314.mrg" is in section 23. None: the file is not called so.
    """
    match = _WSJ_NAME.match(path.name)
    return int(match[1]) if match else None
