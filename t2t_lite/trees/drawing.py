"""Draws constituency trees with NLTK, as text for terminals and as SVG."""

import math
import re
import unicodedata
from collections.abc import Sequence
from html import escape
from itertools import count
from typing import Any

from t2t_lite.trees.tree import LEAF, OPEN, ROOT, UNTAGGED, Tree, leaves, walk

REMARK = "(too deep to be drawn)"  # replaces a tree that is too deep for NLTK's recursion

# Characters that XML forbids, terminal control characters and line breaks.
_UNPRINTABLE = re.compile("[^ -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"  # monospaced, so that word widths are known
_SIZE = 12  # font size in pixels; this and the next three values are those of NLTK's svg()
_START = 20  # the middle of the first column and the baseline of the first row
_COLUMN, _ROW = 40, 25  # distance between columns and between rows
_CELL = 0.61 * _SIZE  # width of a letter
_GAP = 10  # space between columns
_MARGIN = 20  # space around the document
_BETWEEN = 30  # space between two trees

# Elements of NLTK's svg() that show nothing: branches of zero length, white bands behind branches, and empty labels.
_IDLE = re.compile(r'<polyline.*(stroke:white|points="(\S+) \2")|></text>')


def text_art(tree: Tree) -> str:
    """Returns a tree drawn as text, without trailing spaces. Hides the tag XX, and the root TOP if it has one child."""
    tree, words = _shown(tree), _words(tree)
    if _is_bare(tree):
        return words[0]
    try:
        # NLTK counts characters, but some characters take two terminal cells and some take none.
        art = _printer(tree, ["\0" * _cells(word) for word in words]).text(unicodelines=True, maxwidth=None)
    except RecursionError:
        return REMARK
    art = "\n".join(line.rstrip(" ") for line in art.rstrip().split("\n"))
    left = iter(words)
    return re.sub("\0+", lambda _: next(left), art)


def draw_svg(trees: Sequence[tuple[str, Tree]]) -> str:
    """Returns one SVG document with all (caption, tree) pairs, one below the other. It shows the same as `text_art`."""
    parts, width, bottom = [], 0, _MARGIN
    for number, (caption, tree) in enumerate(trees):
        bottom += _BETWEEN if number else 0
        title, title_width, title_height = _line(caption)
        drawing, drawing_width, drawing_height = _drawing(tree)
        parts += [
            f'<g transform="translate({_MARGIN},{bottom})">',
            title,
            f'<g transform="translate(0,{title_height})">',
            drawing,
            "</g>",
            "</g>",
        ]
        width = max(width, title_width, drawing_width)
        bottom += title_height + drawing_height
    width, height = width + 2 * _MARGIN, bottom + _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="{_FONT}" font-size="{_SIZE}px" xml:space="preserve">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white" />', *parts, "</svg>\n"])


def _drawing(tree: Tree) -> tuple[str, int, int]:
    """Returns (SVG elements of a tree, width, height)."""
    tree, words = _shown(tree), _words(tree)
    if _is_bare(tree):
        return _line(words[0])
    try:
        printer = _printer(tree, words)
        width = _spread(printer)
        lines = printer.svg(nodecolor="navy", leafcolor="black", funccolor="navy").split("\n")
    except RecursionError:
        return _line(REMARK)
    height = _START + _ROW * max(row for row, _ in printer.coords.values()) + _SIZE
    # The first and last lines are the enclosing <svg> element.
    return "\n".join(line for line in lines[1:-1] if not _IDLE.search(line)), width, height


def _spread(printer: Any) -> int:  # noqa: ANN401  NLTK's TreePrettyPrinter
    """Makes each column of a drawing as wide as its longest text, in place. Returns the total width.

    The nodes of `printer` are words and subtrees, and its coords are the (row, column) of each node.
    """
    widths: dict[float, int] = {}
    for node, (_, column) in printer.coords.items():
        content = printer.nodes[node]
        widths[column] = max(widths.get(column, 0), _width(content if isinstance(content, str) else content.label()))
    middles, right = {}, 0
    for column, width in sorted(widths.items()):
        middles[column] = right + width // 2
        right += width + _GAP
    # svg() multiplies by _COLUMN and adds _START again.
    places = printer.coords.items()
    printer.coords = {node: (row, (middles[column] - _START) / _COLUMN) for node, (row, column) in places}
    return right - _GAP


def _line(text: str) -> tuple[str, int, int]:
    """Returns (SVG element of a line of text, width, height)."""
    text = _printable(text)
    return f'<text x="0" y="{_SIZE}">{escape(text, quote=False)}</text>', _width(text), 2 * _SIZE


def _printer(tree: Tree, words: Sequence[str]) -> Any:  # noqa: ANN401  NLTK's TreePrettyPrinter
    # Imported here because NLTK takes seconds to load.
    from nltk.tree import Tree as NltkTree
    from nltk.tree.prettyprinter import TreePrettyPrinter

    # The leaves are word positions, because NLTK otherwise confuses the order of words with and without tags.
    positions = count()
    children: list[list[Any]] = [[]]
    for kind, node in walk(tree):
        label = _printable(node.label)
        if kind is OPEN:
            children.append([])
        elif kind is not LEAF:
            constituent = NltkTree(label, children.pop())
            children[-1].append(constituent)
        elif node.label == UNTAGGED:
            children[-1].append(next(positions))
        else:
            children[-1].append(NltkTree(label, [next(positions)]))
    return TreePrettyPrinter(children[0][0], words)


def _shown(tree: Tree) -> Tree:
    return tree.children[0] if tree.label == ROOT and len(tree.children) == 1 else tree


def _is_bare(tree: Tree) -> bool:
    return not tree.children and tree.label == UNTAGGED


def _words(tree: Tree) -> list[str]:
    return [_printable(leaf.word) for leaf in leaves(tree)]


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


def _width(text: str) -> int:
    return math.ceil(_CELL * _cells(text))


def _cells(text: str) -> int:
    """Returns the number of terminal cells that a text takes; at least 1."""
    cells = 0
    for character in text:
        if unicodedata.category(character) not in ("Mn", "Me", "Cf"):
            cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return max(cells, 1)
