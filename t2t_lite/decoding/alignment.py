"""Word alignments from attention weights."""

from collections.abc import Sequence

import numpy as np


def alignment(weights: np.ndarray, source: Sequence[str], output: Sequence[str]) -> str:
    """Links each word of an output to the word of the source that its pieces attend to most.

    Args:
      weights: float [output pieces, source pieces], how much each piece of the output attends to each of the source.
      source, output: the pieces' texts, blanks included. Pieces of one word follow one another.

    Returns:
      "i-j ..." for the output's words j in order, from 0, each with its source word i: the format of Pharaoh.
    """
    source_words, output_words = _words(source), _words(output)
    links = []
    for word in range(max(output_words, default=-1) + 1):
        pieces = [place for place, belongs_to in enumerate(output_words) if belongs_to == word]
        attended = np.zeros(max(source_words, default=-1) + 1)
        for place, source_word in enumerate(source_words):
            if source_word >= 0:
                attended[source_word] += weights[pieces, place].mean()
        if pieces and attended.size:
            links.append(f"{attended.argmax()}-{word}")
    return " ".join(links)


def _words(pieces: Sequence[str]) -> list[int]:
    """Returns the number of the word that each piece begins or goes on with; -1 for a piece of blanks only."""
    words, word, inside = [], -1, False
    for piece in pieces:
        first = -1
        for character in piece:
            if character.isspace():
                inside = False
                continue
            if not inside:
                inside, word = True, word + 1
            first = word if first < 0 else first
        words.append(first)
    return words
