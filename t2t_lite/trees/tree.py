"""Constituency trees and their bracket notation. Nothing here recurses, so trees may have any depth."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ROOT = "TOP"  # the label of the root of a clean tree
OTHER_ROOTS = ("", "ROOT", "S1")  # the other labels of roots in treebanks
UNTAGGED = "XX"  # the tag of a word whose part of speech is unknown (Vinyals et al. 2015)

_TOKENS = re.compile(r"[()]|[^()\s]+", re.ASCII)


class Tree(NamedTuple):
    """A constituent with its children, or a tag with its word."""

    label: str  # the constituent's label, or the word's tag (part of speech)
    children: tuple["Tree", ...] = ()  # the children of a constituent (at least one); () for a tag
    word: str = ""  # the word of a tag; "" for a constituent

    def __str__(self) -> str:
        return to_brackets(self)


# What `walk` yields for a node.
OPEN, LEAF, CLOSE = "open", "leaf", "close"


def walk(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """Yields (OPEN, constituent), (LEAF, tag) and (CLOSE, constituent) from left to right."""
    waiting = [(OPEN, tree)]
    while waiting:
        kind, node = waiting.pop()
        if not node.children:
            yield LEAF, node
            continue
        yield kind, node
        if kind is OPEN:
            waiting.append((CLOSE, node))
            waiting.extend((OPEN, child) for child in reversed(node.children))


def leaves(tree: Tree) -> list[Tree]:
    return [node for kind, node in walk(tree) if kind is LEAF]


def tree_words(tree: Tree) -> list[str]:
    return [leaf.word for leaf in leaves(tree)]


class TreeBuilder:
    """Builds trees from a sequence of brackets and words. Constituents without words are dropped.

    `open_labels` has the labels of the open constituents, innermost last.
    """

    def __init__(self) -> None:
        self.open_labels: list[str] = []
        self._children: list[list[Tree]] = [[]]

    def open(self, label: str) -> None:
        self.open_labels.append(label)
        self._children.append([])

    def leaf(self, tag: str, word: str) -> None:
        self._children[-1].append(Tree(tag, word=word))

    def close(self) -> bool:
        label, children = self.open_labels.pop(), self._children.pop()
        if children:
            self._children[-1].append(Tree(label, tuple(children)))
        return bool(children)

    def trees(self) -> tuple[Tree, ...]:
        return tuple(self._children[0])


def parse_brackets(text: str) -> list[Tree]:
    """Parses trees such as "(S (NP (NN rain)) (VP (VBZ falls)))". Labels may be missing: "( (S ...))".

    Raises ValueError if the text is malformed.
    """
    builder, tokens = TreeBuilder(), _TOKENS.findall(text)
    place, last = 0, len(tokens)
    while place < last:
        token = tokens[place]
        if token == "(":
            place = _open(builder, tokens, place)
        elif token == ")":
            if not builder.open_labels:
                raise ValueError("one closing bracket too many")
            builder.close()
            place += 1
        else:
            raise ValueError(f"'{token}' has no tag")
    if builder.open_labels:
        label = builder.open_labels[-1]
        raise ValueError(f"the bracket of '{label}' is not closed" if label else "the outermost bracket is not closed")
    return list(builder.trees())


def _open(builder: TreeBuilder, tokens: Sequence[str], place: int) -> int:
    """Reads an opening bracket with its label, and the word and closing bracket of a tag. Returns the next position.

    Raises ValueError if the text is malformed.
    """
    last = len(tokens)
    label = tokens[place + 1] if place + 1 < last else ""
    if label in ("(", ")"):
        label = ""
        place += 1
    else:
        place += 2
    after = tokens[place] if place < last else ""
    if after == ")":
        raise ValueError(f"nothing in the brackets of '{label}'")
    if after in ("(", ""):
        builder.open(label)
        return place
    if place + 1 == last:
        raise ValueError(f"the bracket of '{label}' is not closed")
    if tokens[place + 1] != ")":
        raise ValueError(f"more than one word in the brackets of '{label}'")
    builder.leaf(label, after)
    return place + 2


def to_brackets(tree: Tree) -> str:
    """Returns the tree on one line. This is the inverse of `parse_brackets`."""
    parts = []
    for kind, node in walk(tree):
        if kind is OPEN:
            parts.append(f" ({node.label}")
        elif kind is LEAF:
            parts.append(f" ({node.label} {node.word})")
        else:
            parts.append(")")
    return "".join(parts)[1:]
