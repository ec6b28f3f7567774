"""What is taken from a treebank's tree before a model learns it: the constituents with their bare labels."""

from t2t_lite.trees.tree import LEAF, OPEN, ROOT, Tree, TreeBuilder, walk

EMPTY = "-NONE-"  # tag of a trace or another empty element
_ROOTS = ("", "ROOT", "TOP", "S1")  # what treebanks call the bracket around a whole tree
BRACKET_WORDS = {"(": "-LRB-", ")": "-RRB-"}


def clean(tree: Tree) -> Tree | None:
    """Returns a tree without empty elements and function tags, under the label TOP; None if no word is left.

    Constituents with nothing but empty elements go with them; all others stay, those with a single child, too. Tags
    stay as they are, but for what stands behind "=" or "-".

    Raises:
      ValueError: if a tree's root stands inside of another tree, as it does when a bracket is missing.
    """
    builder = TreeBuilder()
    has_root = tree.label in _ROOTS and bool(tree.children)
    builder.open(ROOT)
    for kind, node in walk(tree):
        if node is tree and has_root:
            continue
        if kind is OPEN:
            if node.label in _ROOTS:
                raise ValueError("a whole tree inside of another")
            builder.open(bare(node.label))
        elif kind is not LEAF:
            builder.close()
        elif node.label != EMPTY:
            builder.leaf(bare(node.label), BRACKET_WORDS.get(node.word, node.word))
    builder.close()
    return builder.trees()[0] if builder.trees() else None


def bare(label: str) -> str:
    """Returns a label without function tags and indices: "NP" of "NP-SBJ-1" and of "NP=2"; "-LRB-" stays."""
    if label.startswith(("-", "=")):
        return label
    return label.split("-")[0].split("=")[0]
