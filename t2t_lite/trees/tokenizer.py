"""Cuts a line into the words that a parser reads, as the Penn Treebank has them."""

import re
from collections.abc import Callable

from t2t_lite.trees.cleaning import BRACKET_WORDS

_WORDS = re.compile(r"\S+", re.ASCII)  # other blanks of Unicode stand within words, as they do in treebanks


def split_at_blanks(line: str) -> list[str]:
    """Returns the words of a line that is tokenised already; round brackets, in words too, become -LRB- and -RRB-."""
    for bracket, word in BRACKET_WORDS.items():
        line = line.replace(bracket, word)
    return _WORDS.findall(line)


def split_as_treebank(line: str) -> list[str]:
    """Returns the words of a line of plain text, cut by the rules of the Penn Treebank, as NLTK has them.

    "(Don't!)" is "-LRB- Do n't ! -RRB-", and quotation marks become `` and ''.
    """
    from nltk.tokenize import NLTKWordTokenizer  # here, as it takes a second to import

    return split_at_blanks(" ".join(NLTKWordTokenizer().tokenize(line, convert_parentheses=True)))


# By the names that users give.
TOKENIZERS: dict[str, Callable[[str], list[str]]] = {"blanks": split_at_blanks, "treebank": split_as_treebank}
