import re

import numpy as np
import pytest

from t2t_lite.decoding.alignment import alignment


def links_of(text):
    """Returns the pairs (source word, output word) of an alignment."""
    return [tuple(int(number) for number in link.split("-")) for link in text.split()]


def random_tokens(rng):
    """Returns tokens with characters of at most one word each, and blanks before, after, or on their own."""
    tokens = []
    for _ in range(rng.integers(0, 9)):
        before, after = (str(rng.choice(["", "", " ", "  ", "\u00a0", "\t"])) for _ in range(2))
        tokens.append(before + str(rng.choice(["", "a", "bc", "ü.", "#", "⁇"])) + after)
    return [*tokens, ""] if rng.random() < 0.5 else tokens


def membership(tokens):
    """Returns bool [words, tokens]: whether a token has characters of a word, by their places in the joined text."""
    ends = np.cumsum([len(token) for token in tokens], dtype=int)
    words = [match.span() for match in re.finditer(r"\S+", "".join(tokens))]
    belongs = np.zeros([len(words), len(tokens)], bool)
    for word, (first, end) in enumerate(words):
        for column, (token, token_end) in enumerate(zip(tokens, ends)):
            inside = range(max(first, token_end - len(token)), min(end, token_end))
            belongs[word, column] = len(inside) > 0
    return belongs


# case: (weights, source, output, links)
CASES = {
    # No single token of "bcd" has the largest weight, but their sum is the largest.
    "a source word has the sum of its tokens": ([[0.4, 0.2, 0.2, 0.2]], ["a", " b", "c", "d"], ["x"], "1-0"),
    # The first token of "xyz" attends most to word 0, and so do two of three tokens; the mean does not.
    "an output word has the mean of its tokens": ([*2 * [[0.55, 0.45]], [0, 1]], ["a", " b"], ["x", "y", "z"], "1-0"),
    # The blanks of the source have the largest weights; the blanks of the output would change the link.
    "blanks alone": ([[0.3, 0.6, 0.1], [0, 0, 1], [0.1, 0.9, 0]], ["a", " ", "b"], ["x", " ", "y"], "0-0 0-1"),
    "blanks at both ends of a text": (np.eye(4), [" ", " a", " b", "  "], ["  ", " x", " y ", " "], "0-0 1-1"),
    "end symbols": ([[0.2, 0.1, 0.7], [0.1, 0.2, 0.7], [1, 0, 0]], ["a", " b", ""], ["x", " y", ""], "0-0 1-1"),
    "two digits": (np.eye(12)[::-1], [" w"] * 12, [" w"] * 12, " ".join(f"{11 - i}-{i}" for i in range(12))),
}


@pytest.mark.parametrize(("weights", "source", "output", "links"), CASES.values(), ids=CASES)
def test_each_output_word_is_linked_to_the_source_word_that_it_attends_to_most(weights, source, output, links):
    assert alignment(np.array(weights), source, output) == links


@pytest.mark.parametrize("seed", range(5))
def test_random_links_equal_those_of_summed_and_averaged_weights(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        source, output = [*random_tokens(rng), " word"], random_tokens(rng)
        weights = rng.dirichlet(np.full(len(source), 0.5), size=len(output))
        source_words, output_words = membership(source).astype(float), membership(output).astype(float)
        means = output_words / output_words.sum(1, keepdims=True)
        expected = (means @ weights @ source_words.T).argmax(1)
        assert links_of(alignment(weights, source, output)) == [(i, j) for j, i in enumerate(expected)]
