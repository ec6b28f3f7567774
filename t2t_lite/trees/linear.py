"""Converts trees to sequences of symbols, as in Vinyals et al. 2015, "Grammar as a Foreign Language" (arXiv 1412.7449).

"(S", "XX" and ")S" are an opening bracket, a word and a closing bracket. Closing brackets repeat the label. Each word
with its tag becomes the symbol XX. The root's bracket is left out. For example,
"(TOP (S (NP (NN rain)) (VP (VBZ falls))))" becomes "(S (NP XX )NP (VP XX )VP )S".

With tags, each word becomes its tag (part of speech): "(S (NP NN )NP (VP VBZ )VP )S".

`repair` turns the output of a model, which may be any symbols, into a well-formed tree over the given words.
"""

import itertools
from collections.abc import Collection, Sequence

from t2t_lite.trees.tree import LEAF, OPEN, ROOT, UNTAGGED, Tree, TreeBuilder, walk

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
    **{word: word for word in ("``", "''", ",", "-LRB-", "-RRB-", "$", "#")},
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
