"""Cuts a line into the words that a parser reads, as the Penn Treebank has them."""

from collections.abc import Callable

from t2t_lite.trees.cleaning import BRACKET_WORDS


def split_at_blanks(line: str) -> list[str]:
    """Returns the words of a line that is tokenised already; round brackets become -LRB- and -RRB-."""
    return [BRACKET_WORDS.get(word, word) for word in line.split()]


def split_as_treebank(line: str) -> list[str]:
    """Returns the words of a line of plain text, cut by the rules of the Penn Treebank, as NLTK has them.

    "(Don't!)" is "-LRB- Do n't ! -RRB-", and quotation marks become `` and ''.
    """
    from nltk.tokenize import NLTKWordTokenizer  # here, as it takes a second to import

    return split_at_blanks(" ".join(NLTKWordTokenizer().tokenize(line, convert_parentheses=True)))


# By the names that users give.
TOKENIZERS: dict[str, Callable[[str], list[str]]] = {"blanks": split_at_blanks, "treebank": split_as_treebank}
