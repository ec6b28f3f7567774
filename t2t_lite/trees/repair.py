"""Repairs the output of a model: turns any symbols into a well-formed tree over the given words."""

from collections.abc import Sequence

from t2t_lite.trees.linear import is_symbol, punctuation_tags
from t2t_lite.trees.tree import ROOT, UNTAGGED, Tree, TreeBuilder

# The kinds of defects, in the order of reports.
EMPTY = "empty output"
UNKNOWN = "unknown symbols"
UNMATCHED = "unmatched brackets"
HOLLOW = "brackets around nothing"
TOO_FEW = "too few leaves"
TOO_MANY = "too many leaves"
REPAIRS = (EMPTY, UNKNOWN, UNMATCHED, HOLLOW, TOO_FEW, TOO_MANY)
# The label for words outside all constituents of the output.
_SENTENCE = "S"


def repair(symbols: str, words: Sequence[str]) -> tuple[Tree, frozenset[str]]:
    """Returns a tree over exactly the given words, for any symbols. See `linear` for well-formed symbols.

    A closing bracket closes the innermost open bracket with its label and all brackets inside it. If there is no such
    bracket, it is dropped. Open brackets are closed at the end. Unknown symbols, surplus leaves and brackets around
    nothing are dropped. Surplus words are appended to the last outermost constituent, or to the tree if it ends with a
    word. Without any symbols, the words become the children of one S.

    `words` must not be empty. Returns the tree and the elements of REPAIRS that it needed. If it needed none,
    `linearise` turns the tree into the same symbols.
    """
    listed = symbols.split()
    leaves = tuple(Tree(tag, word=word) for tag, word in zip(punctuation_tags(words), words, strict=True))
    if not any(is_symbol(symbol) for symbol in listed):
        return Tree(ROOT, (Tree(_SENTENCE, leaves),)), frozenset({EMPTY})
    builder, needed, place = TreeBuilder(), set(), 0
    for symbol in listed:
        if not is_symbol(symbol):
            needed.add(UNKNOWN)
        elif symbol[0] == "(":
            builder.open(symbol[1:])
        elif symbol[0] == ")":
            needed |= _close(builder, symbol[1:])
        elif place == len(words):
            needed.add(TOO_MANY)
        else:
            own = leaves[place]
            builder.leaf(symbol if own.label == UNTAGGED else own.label, own.word)
            place += 1
    while builder.open_labels:
        needed |= {UNMATCHED} | _close(builder, builder.open_labels[-1])
    children = builder.trees()
    if place < len(words):
        needed.add(TOO_FEW)
        rest = leaves[place:]
        if children and not children[-1].children:  # it ends with a word
            children = (*children, *rest)
        else:
            last = children[-1] if children else Tree(_SENTENCE)
            children = (*children[:-1], Tree(last.label, last.children + rest))
    return Tree(ROOT, children), frozenset(needed)


def _close(builder: TreeBuilder, label: str) -> set[str]:
    wrong = set()
    if label not in builder.open_labels:
        return {UNMATCHED}
    while builder.open_labels[-1] != label:
        wrong |= {UNMATCHED} | _close(builder, builder.open_labels[-1])
    if not builder.close():
        wrong.add(HOLLOW)
    return wrong
