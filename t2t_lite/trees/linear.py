"""Converts trees to sequences of symbols, as in Vinyals et al. 2015, "Grammar as a Foreign Language" (arXiv 1412.7449).

"(S", "XX" and ")S" are an opening bracket, a word and a closing bracket. Closing brackets repeat the label. Each word
with its tag becomes the symbol XX. The root's bracket is left out. For example,
"(TOP (S (NP (NN rain)) (VP (VBZ falls))))" becomes "(S (NP XX )NP (VP XX )VP )S".

With tags, each word becomes its tag (part of speech): "(S (NP NN )NP (VP VBZ )VP )S".
"""

import itertools
from collections.abc import Collection, Sequence

from t2t_lite.trees.tree import LEAF, OPEN, UNTAGGED, Tree, walk

WORD = UNTAGGED  # the symbol for a word without a tag
# The tags of the Penn Treebank and of later English treebanks.
_TAGS = """
CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT
WP WP$ WRB $ # `` '' -LRB- -RRB- , . : ADD AFX GW HYPH NFP
"""
TAGS = tuple(_TAGS.split())
# The labels of the Penn Treebank (Bies et al. 1995).
_LABELS = """
ADJP ADVP CONJP FRAG INTJ LST NAC NP NX PP PRN PRT QP RRC S SBAR SBARQ SINV SQ UCP VP WHADJP WHADVP WHNP WHPP X
"""
BRACKETS = tuple(map("".join, itertools.product("()", _LABELS.split())))  # all opening, then all closing
LEAVES = frozenset((WORD, *TAGS))  # all symbols for a word
# Words with only one tag, mostly punctuation. EVALB recognises punctuation by its tag.
_PUNCTUATION = {
    "``": "``",
    "''": "''",
    ",": ",",
    "-LRB-": "-LRB-",
    "-RRB-": "-RRB-",
    "$": "$",
    "#": "#",
    **dict.fromkeys((".", "?", "!"), "."),
    **dict.fromkeys((":", ";", "--", "..."), ":"),
}


def is_symbol(text: str) -> bool:
    """Returns whether a text is a symbol: XX or a tag for a word, or a bracket with a label."""
    return text in LEAVES or (len(text) > 1 and text[0] in "()" and not set(text[1:]) & {"(", ")"})


def punctuation_tags(words: Sequence[str]) -> list[str]:
    """Returns a tag for each word: its own tag for punctuation, else XX, because the parser predicts no tags."""
    return [_PUNCTUATION.get(word, UNTAGGED) for word in words]


def linearise(tree: Tree, tags: Collection[str] = ()) -> str:
    """Returns the symbols of a clean tree, separated by spaces. Words whose tag is in `tags` become this tag."""
    symbols = []
    for kind, node in walk(tree):
        if node is tree:
            continue
        if kind is LEAF:
            symbols.append(node.label if node.label in tags else WORD)
        else:
            symbols.append(f"({node.label}" if kind is OPEN else f"){node.label}")
    return " ".join(symbols)
