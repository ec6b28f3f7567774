"""Cleans the trees of a treebank for training: removes empty elements and function tags."""

import re

from t2t_lite.trees.tree import LEAF, OPEN, OTHER_ROOTS, ROOT, Tree, TreeBuilder, walk

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
