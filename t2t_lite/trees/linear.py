"""Converts trees to sequences of symbols, as in Vinyals et al. 2015, "Grammar as a Foreign Language" (arXiv 1412.7449).

"(S", "XX" and ")S" are an opening bracket, a word and a closing bracket. Closing brackets repeat the label. Each word
with its tag becomes the symbol XX. The root's bracket is left out. For example,
"(TOP (S (NP (NN rain)) (VP (VBZ falls))))" becomes "(S (NP XX )NP (VP XX )VP )S".
"""

from collections.abc import Sequence

from t2t_lite.trees.tree import LEAF, OPEN, UNTAGGED, Tree, walk

WORD = UNTAGGED  # the symbol for a word
# Words with only one tag, mostly punctuation. EVALB recognises punctuation by its tag.
_PUNCTUATION = {
    "``": "``",
    "''": "''",
    **dict.fromkeys((".", "?", "!"), "."),
    **dict.fromkeys((":", ";", "--", "..."), ":"),
    **{word: word for word in (",", "-LRB-", "-RRB-", "$", "#")},
}


def is_symbol(text: str) -> bool:
    """Returns whether a text is a symbol: XX for a word, or a bracket with a label."""
    return text == WORD or (len(text) > 1 and text[0] in "()" and not set(text[1:]) & {"(", ")"})


def punctuation_tags(words: Sequence[str]) -> list[str]:
    """Returns a tag for each word: its own tag for punctuation, else XX, because the parser predicts no tags."""
    return [_PUNCTUATION.get(word, UNTAGGED) for word in words]


def linearise(tree: Tree) -> str:
    """Returns the symbols of a clean tree, separated by spaces."""
    symbols = []
    for kind, node in walk(tree):
        if node is tree:
            continue
        symbols.append(WORD if kind is LEAF else f"({node.label}" if kind is OPEN else f"){node.label}")
    return " ".join(symbols)


def bracket_pairs(symbols: Sequence[str]) -> list[tuple[int, int]]:
    """Returns (closing, opening), indices of symbols, for each pair of brackets in a linearised tree."""
    pairs, opened = [], []
    for place, symbol in enumerate(symbols):
        if symbol.startswith("("):
            opened.append(place)
        elif symbol.startswith(")"):
            pairs.append((place, opened.pop()))
    return pairs
