"""New training trees by substitution: constituents are replaced by others of the same label.

Source: Shi, Livescu and Gimpel 2021, "Substructure Substitution: Structured Data Augmentation for NLP",
arXiv 2101.00411.
"""

import collections
import random
from collections.abc import Iterable

from t2t_lite.trees.tree import CLOSE, LEAF, OPEN, Tree, TreeBuilder, leaves, walk

# Probability of replacing a constituent whose ancestors stay. About two in a sentence of 20 words are replaced.
RATE = 0.1


class Substitution:
    """Replaces constituents at random by constituents of other trees, with the same label and a similar length.

    Args:
      trees: where the substitutes come from.
      rate: the probability of replacing a constituent, from the top down; what is inside a substitute stays.
    """

    def __init__(self, trees: Iterable[Tree], rate: float = RATE) -> None:
        self._rate = rate
        self._substitutes: dict[tuple[str, int], list[Tree]] = collections.defaultdict(list)
        for tree in trees:
            for node in _constituents(tree):
                self._substitutes[_kind(node)].append(node)

    def __call__(self, tree: Tree, lots: random.Random) -> Tree:
        """Returns a variant of the tree; its root and the constituents directly below it stay."""
        builder = TreeBuilder()
        waiting: list[tuple[str, Tree, int]] = [(OPEN, tree, 0)]
        while waiting:
            kind, node, depth = waiting.pop()
            if kind is CLOSE:
                builder.close()
            elif not node.children:
                builder.leaf(node.label, node.word)
            else:
                if depth > 1 and lots.random() < self._rate and (others := self._substitutes.get(_kind(node))):
                    _add(builder, lots.choice(others))
                    continue
                builder.open(node.label)
                waiting.append((CLOSE, node, depth))
                waiting.extend((OPEN, child, depth + 1) for child in reversed(node.children))
        return builder.trees()[0]


def _constituents(tree: Tree) -> list[Tree]:
    """Returns the constituents that can be substitutes: all but the root and those directly below it."""
    depth, found = 0, []
    for kind, node in walk(tree):
        if kind is OPEN:
            if depth > 1:
                found.append(node)
            depth += 1
        elif kind is CLOSE:
            depth -= 1
    return found


def _kind(node: Tree) -> tuple[str, int]:
    """Returns the label and the magnitude of the length: 1, 2 to 3, 4 to 7 words and so on."""
    return node.label, len(leaves(node)).bit_length()


def _add(builder: TreeBuilder, tree: Tree) -> None:
    for kind, node in walk(tree):
        if kind is OPEN:
            builder.open(node.label)
        elif kind is LEAF:
            builder.leaf(node.label, node.word)
        else:
            builder.close()
