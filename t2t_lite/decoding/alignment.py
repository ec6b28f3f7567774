"""Word alignments from attention weights."""

import itertools
from collections.abc import Sequence

import numpy as np


def alignment(weights: np.ndarray, source: Sequence[str], output: Sequence[str]) -> str:
    """Links each output word to the source word that its tokens attend to most.

    `weights` are float [output tokens, source tokens]; `source` and `output` are the texts of the tokens, see
    `words_of_tokens`. Returns "i-j ..." in Pharaoh format: one pair for each output word j, in order, with its source
    word i. Both indices start at 0.
    """
    source_words, output_words = words_of_tokens(source), words_of_tokens(output)
    links = []
    for word in range(1 + max(itertools.chain.from_iterable(output_words), default=-1)):
        mean = weights[[place for place, words in enumerate(output_words) if word in words]].mean(0)
        attended = np.zeros(1 + max(itertools.chain.from_iterable(source_words), default=-1))
        for place, words in enumerate(source_words):
            for source_word in words:
                attended[source_word] += mean[place]
        if attended.size:
            links.append(f"{attended.argmax()}-{word}")
    return " ".join(links)


def words_of_tokens(tokens: Sequence[str]) -> list[list[int]]:
    """Returns, for each token, the indices of the words that it overlaps; empty for a token of blanks only.

    The texts of the tokens include blanks. The tokens of a word are adjacent.
    """
    words_by_token, word, inside = [], -1, False
    for token in tokens:
        words = []
        for character in token:
            if character.isspace():
                inside = False
                continue
            if not inside:
                inside, word = True, word + 1
            if word not in words:
                words.append(word)
        words_by_token.append(words)
    return words_by_token
