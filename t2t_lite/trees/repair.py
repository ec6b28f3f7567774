"""Makes a well-formed tree over given words out of whatever a model has written."""

import contextlib
from collections.abc import Sequence

from t2t_lite.trees.linear import is_symbol, rebuild, tags_of
from t2t_lite.trees.tree import ROOT, Tree, TreeBuilder

# What can be wrong with an output, in the order of reports.
EMPTY = "empty output"
UNKNOWN = "unknown symbols"
UNMATCHED = "unmatched brackets"
HOLLOW = "brackets around nothing"
TOO_FEW = "too few leaves"
TOO_MANY = "too many leaves"
REPAIRS = (EMPTY, UNKNOWN, UNMATCHED, HOLLOW, TOO_FEW, TOO_MANY)
# What a sentence is taken for when nothing is known of it.
_SENTENCE = "S"


def repair(symbols: str, words: Sequence[str]) -> tuple[Tree, frozenset[str]]:
    """Returns a tree over exactly these words, whatever the symbols are; see `linear` for what they should be.

    A closing bracket closes the innermost open one of its label, and those inside of it; if there is none, it is left
    out. Brackets that stay open are closed at the end. What is no symbol is left out, and so are leaves that there are
    no words for, and brackets around nothing. Words that there are no leaves for go to the end of the last outermost
    constituent, or of the tree. If there is no symbol at all, the words are the children of one S.

    Args:
      symbols: what a model has written, with blanks between the symbols.
      words: the sentence's words, at least one.

    Returns:
      (the tree, those of REPAIRS that it needed): none if it is the tree that `rebuild` returns.
    """
    with contextlib.suppress(ValueError):
        return rebuild(symbols, words), frozenset()
    listed = symbols.split()
    leaves = tuple(Tree(tag, word=word) for tag, word in zip(tags_of(words), words, strict=True))
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
            builder.leaf(leaves[place].label, leaves[place].word)
            place += 1
    while builder.open_labels:
        needed |= {UNMATCHED} | _close(builder, builder.open_labels[-1])
    children = builder.trees()
    if place < len(words):
        needed.add(TOO_FEW)
        children = _with_more(children, leaves[place:])
    return Tree(ROOT, children), frozenset(needed)


def _close(builder: TreeBuilder, label: str) -> set[str]:
    """Closes the innermost constituent of a label, and what is open inside of it; returns what was wrong."""
    wrong = set()
    if label not in builder.open_labels:
        return {UNMATCHED}
    while builder.open_labels[-1] != label:
        wrong |= {UNMATCHED} | _close(builder, builder.open_labels[-1])
    if not builder.close():
        wrong.add(HOLLOW)
    return wrong


def _with_more(children: tuple[Tree, ...], leaves: tuple[Tree, ...]) -> tuple[Tree, ...]:
    """Adds leaves at the end of the last constituent."""
    if not children:
        return (Tree(_SENTENCE, leaves),)
    *before, last = children
    if not last.children:
        return (*children, *leaves)
    return (*before, Tree(last.label, last.children + leaves))
