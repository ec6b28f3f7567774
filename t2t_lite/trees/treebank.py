"""Reads the files of a treebank, and cleans its trees for training.

Trees may span several lines, be indented and be separated by empty lines.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_lite.data.text_files import open_bytes, split_lines
from t2t_lite.errors import UserError
from t2t_lite.trees.tree import LEAF, OPEN, OTHER_ROOTS, ROOT, Tree, TreeBuilder, parse_brackets, walk

EMPTY = "-NONE-"  # tag of a trace or other empty element
_ROOTS = (ROOT, *OTHER_ROOTS)  # labels of the outermost bracket in treebanks
BRACKET_WORDS = {"(": "-LRB-", ")": "-RRB-"}
_ESCAPED = re.compile(r"\\([/*])")  # the Penn Treebank writes "and\/or" and "\*" for "and/or" and "*"


def clean(tree: Tree) -> Tree | None:
    """Returns a tree without empty elements and function tags, with the root TOP, or None if no word is left.

    Constituents that contain only empty elements are removed. All others are kept, including those with a single child.
    Labels and tags are cut off before "=" or "-", see `bare`. Escaped words become those of text: "1/2", not "1\\/2".
    Raises ValueError if the root of a tree is inside another tree, which happens if a bracket is missing.
    """
    builder = TreeBuilder()
    has_root = tree.label in _ROOTS and bool(tree.children)
    builder.open(ROOT)
    for kind, node in walk(tree):
        if node is tree and has_root:
            continue
        if kind is OPEN:
            if node.label in _ROOTS:
                raise ValueError("a whole tree inside another")
            builder.open(bare(node.label))
        elif kind is not LEAF:
            builder.close()
        elif node.label != EMPTY:
            builder.leaf(bare(node.label), BRACKET_WORDS.get(node.word) or _ESCAPED.sub(r"\1", node.word))
    builder.close()
    return builder.trees()[0] if builder.trees() else None


def bare(label: str) -> str:
    """Returns a label without function tags and indices: "NP" for "NP-SBJ-1" and "NP=2"; "-LRB-" is unchanged."""
    if label.startswith(("-", "=")):
        return label
    return label.split("-")[0].split("=")[0]


# After this many lines of one tree, a line that starts with a bracket begins a new tree, even if brackets are open.
_MAX_LINES = 1000
_ROOT = re.compile(r"\(\s*(\(|(TOP|ROOT|S1)(\s|\(|$))")
TREE_FILE_EXTENSIONS = (".mrg", ".ptb", ".mrg.gz", ".ptb.gz")


class Malformed(NamedTuple):
    """Stands for a tree that cannot be read."""

    where: str  # the file and the first line of the tree
    reason: str  # why it cannot be read

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


def treebank_files(path: Path) -> list[Path]:
    """Returns a treebank's files: the path, or a folder's files that end in `TREE_FILE_EXTENSIONS`, sorted."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"no such file or folder: {path}")
    named = (file for file in path.rglob("*") if file.name.lower().endswith(TREE_FILE_EXTENSIONS))
    if not (files := sorted(file for file in named if file.is_file())):
        raise UserError(
            f"{path} has no trees: it contains no file whose name ends in {', '.join(TREE_FILE_EXTENSIONS)}"
        )
    return files


def read_trees(path: Path) -> Iterator[Tree | Malformed]:
    """Yields the clean trees of a file, plain or compressed, and a `Malformed` for each tree that cannot be read.

    Reading continues after a malformed tree. Trees without words are left out.
    """
    for group in _groups(path):
        trees = _parse_trees(path, group)
        if isinstance(trees[0], Malformed) and not _ROOT.search(group[0][1]):
            # Without a root, only the brackets show where a tree ends. Try each line-initial bracket separately.
            trees = itertools.chain.from_iterable(_parse_trees(path, part) for part in _parts(group))
        yield from filter(None, trees)


class _NotUtf8(str):
    """A line with U+FFFD instead of invalid bytes."""


def _parse_trees(path: Path, lines: list[tuple[int, str]]) -> list[Tree | Malformed | None]:
    """Returns the trees in `lines`, with None for trees without words; or one `Malformed` for all lines."""
    where = f"{path}, line {lines[0][0]}"
    if any(isinstance(line, _NotUtf8) for _, line in lines):
        return [Malformed(where, "not UTF-8")]
    try:
        return [clean(tree) for tree in parse_brackets("\n".join(line for _, line in lines))]
    except ValueError as error:
        return [Malformed(where, str(error))]


def _groups(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Yields groups of (line number, line): the lines of one tree, or of several trees if a bracket is missing.

    Empty lines may occur anywhere. An unindented line that begins with a root begins a tree. Trees without a root end
    when their brackets are closed.
    """
    lines, depth, has_roots = [], 0, False
    with open_bytes(path) as file:
        lines_read = split_lines(file, str(path), lambda where, problem, text: _NotUtf8(text))
        for number, text in enumerate(lines_read, start=1):
            text = type(text)(text.replace(")\ufeff", ")"))  # cat joined files, one without a line end
            if not text.strip():
                continue
            is_root, is_bracket = bool(_ROOT.match(text)), text.startswith("(")
            has_roots |= is_root
            # After too many closing brackets, a line still belongs to the same tree if it is indented or, where trees
            # have roots, starts with a bracket without a root.
            goes_on = depth < 0 and (text[0].isspace() or (is_bracket and has_roots))
            too_many = len(lines) >= _MAX_LINES and is_bracket
            if lines and (is_root or too_many or (depth <= 0 and not goes_on)):
                yield lines
                lines, depth = [], 0
            lines.append((number, text))
            depth += text.count("(") - text.count(")")
    if lines:
        yield lines


def _parts(lines: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Splits a group before each line that begins with a bracket, and after each line that closes all brackets."""
    part, depth = [], 0
    for number, line in lines:
        if part and (line.startswith("(") or depth == 0):
            yield part
            part, depth = [], 0
        part.append((number, line))
        depth += line.count("(") - line.count(")")
    yield part


_WSJ_NAME = re.compile(r"wsj_(\d\d)\d\d\.", re.IGNORECASE)


def wsj_section(path: Path) -> int | None:
    """Returns the section of a Wall Street Journal file in the Penn Treebank, as given by its name.

    "wsj_2314.mrg" is in section 23. Returns None if the file name has another form.
    """
    match = _WSJ_NAME.match(path.name)
    return int(match[1]) if match else None
