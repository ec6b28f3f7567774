"""Splits lines into words for a parser, following the conventions of the Penn Treebank."""

import re
from collections.abc import Callable

from t2t_lite.trees.treebank import BRACKET_WORDS

_WORDS = re.compile(r"\S+", re.ASCII)  # other Unicode spaces are part of words, as in treebanks
# NLTK recognises contractions only with a straight apostrophe.
_STRAIGHT = str.maketrans("\u2018\u2019", "''")
_DOUBLE = {"\u201c": "``", "\u201d": "''"}


def split_at_blanks(line: str) -> list[str]:
    """Returns the words of a tokenised line. Round brackets, even inside words, become -LRB- and -RRB-."""
    for bracket, word in BRACKET_WORDS.items():
        line = line.replace(bracket, word)
    return _WORDS.findall(line)


def split_as_treebank(line: str) -> list[str]:
    """Returns the words of a line of plain text, split by NLTK with the rules of the Penn Treebank.

    "(Don't!)" is "-LRB- Do n't ! -RRB-", and quotation marks become `` and ''. Typographic apostrophes and quotation
    marks are split like straight ones, and become the same words.
    """
    from nltk.tokenize import NLTKWordTokenizer  # imported here because it takes a second

    words = NLTKWordTokenizer().tokenize(line.translate(_STRAIGHT), convert_parentheses=True)
    return split_at_blanks(" ".join(_DOUBLE.get(word, word) for word in words))


# The tokenizer for each value of --tokenizer.
TOKENIZERS: dict[str, Callable[[str], list[str]]] = {"blanks": split_at_blanks, "treebank": split_as_treebank}
