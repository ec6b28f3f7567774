"""Trees as sequences of symbols, as in Vinyals et al. 2015, "Grammar as a Foreign Language" (arXiv 1412.7449).

"(S", "XX" and ")S" stand for a bracket that opens, a word and the bracket that closes: the labels come again with the
closing brackets, all tags are the one symbol XX, and words are not repeated. The bracket of the root is left out. So
"(TOP (S (NP (NN rain)) (VP (VBZ falls))))" is "(S (NP XX )NP (VP XX )VP )S".
"""

from collections.abc import Sequence

from t2t_lite.trees.tree import LEAF, OPEN, ROOT, UNTAGGED, Tree, TreeBuilder, walk

WORD = UNTAGGED  # the symbol for a word
# Words that have one tag only. EVALB knows punctuation by its tag.
_PUNCTUATION = {
    "``": "``",
    "''": "''",
    **dict.fromkeys((".", "?", "!"), "."),
    **dict.fromkeys((":", ";", "--", "..."), ":"),
    **{word: word for word in (",", "-LRB-", "-RRB-", "$", "#")},
}


def is_symbol(text: str) -> bool:
    """Whether a text is a symbol of trees: a word's, or one bracket with a label."""
    return text == WORD or (len(text) > 1 and text[0] in "()" and not set(text[1:]) & {"(", ")"})


def tags_of(words: Sequence[str]) -> list[str]:
    """Returns a tag for each word, that of punctuation, or XX for any other word: a parser gives no parts of speech."""
    return [_PUNCTUATION.get(word, UNTAGGED) for word in words]


def linearise(tree: Tree) -> str:
    """Returns the symbols of a clean tree, with blanks between them."""
    symbols = []
    for kind, node in walk(tree):
        if node is tree:
            continue
        symbols.append(WORD if kind is LEAF else f"({node.label}" if kind is OPEN else f"){node.label}")
    return " ".join(symbols)


def rebuild(symbols: str, words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """Returns the tree whose symbols these are: the inverse of `linearise`, given the words.

    Args:
      symbols: what `linearise` returned.
      words: the tree's words.
      tags: their tags; None: as `tags_of` has them.

    Raises:
      ValueError: if they are not the symbols of a tree over these words; the message says why in a few words.
    """
    builder, tags = TreeBuilder(), tags or tags_of(words)
    builder.open(ROOT)
    place = 0
    for symbol in symbols.split():
        if not is_symbol(symbol):
            raise ValueError(f"'{symbol}' is no symbol")
        if symbol == WORD:
            if place == len(words):
                raise ValueError("more leaves than words")
            builder.leaf(tags[place], words[place])
            place += 1
        elif symbol[0] == "(":
            builder.open(symbol[1:])
        elif len(builder.open_labels) > 1 and builder.open_labels[-1] == symbol[1:]:
            if not builder.close():
                raise ValueError(f"nothing in the brackets of '{symbol[1:]}'")
        else:
            raise ValueError(f"'{symbol}' closes nothing that is open")
    if len(builder.open_labels) > 1:
        raise ValueError(f"the bracket of '{builder.open_labels[-1]}' is not closed")
    if place < len(words):
        raise ValueError("fewer leaves than words")
    if not builder.close():
        raise ValueError("an empty tree")
    return builder.trees()[0]
