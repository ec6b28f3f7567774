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


def test_single_token_words_link_to_their_largest_weight():
    weights = np.array([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
    assert alignment(weights, ["a", " b", " c"], ["x", " y"]) == "1-0 0-1"


def test_one_word_on_each_side():
    assert alignment(np.array([[1.0]]), ["a"], ["x"]) == "0-0"


def test_all_words_may_link_to_one_word():
    weights = np.array([[0.2, 0.8], [0.3, 0.7], [0.4, 0.6]])
    assert alignment(weights, ["a", " b"], ["x", " y", " z"]) == "1-0 1-1 1-2"


def test_the_weight_of_a_source_word_is_the_sum_over_its_tokens():
    # No single token of "bcd" has the largest weight, but their sum is the largest.
    weights = np.array([[0.4, 0.2, 0.2, 0.2]])
    assert alignment(weights, ["a", " b", "c", "d"], ["x"]) == "1-0"


def test_the_weight_of_an_output_word_is_the_mean_over_its_tokens():
    # The first token of "xyz" attends most to word 0, and so do two of three tokens; the mean does not.
    weights = np.array([[0.55, 0.45], [0.55, 0.45], [0.0, 1.0]])
    assert alignment(weights, ["a", " b"], ["x", "y", "z"]) == "1-0"


def test_word_numbers_may_have_several_digits():
    weights = np.eye(12)[::-1]
    words = [" w"] * 12
    assert alignment(weights, words, words) == " ".join(f"{11 - word}-{word}" for word in range(12))


def test_a_token_of_only_blanks_belongs_to_no_word():
    # The blanks of the source have the largest weights; the blanks of the output would change the link.
    weights = np.array([[0.3, 0.6, 0.1], [0.0, 0.0, 1.0], [0.1, 0.9, 0.0]])
    assert alignment(weights, ["a", " ", "b"], ["x", " ", "y"]) == "0-0 0-1"


def test_a_token_of_only_blanks_ends_a_word():
    assert alignment(np.eye(5), ["a", "b", " ", "c", "d"], ["v", " ", "w", "x", "y"]) == "0-0 1-1"
    assert alignment(np.eye(3), ["a", "\u00a0", "b"], ["x", "\t", "y"]) == "0-0 1-1"


def test_a_blank_at_the_end_of_a_token_ends_a_word():
    assert alignment(np.eye(3), ["a ", "b", "c"], ["x ", "y ", "z"]) == "0-0 1-1 1-2"


def test_blanks_at_both_ends_of_a_text_make_no_word():
    assert alignment(np.eye(4), [" ", " a", " b", "  "], ["  ", " x", " y ", " "]) == "0-0 1-1"


def test_the_end_symbol_belongs_to_no_word():
    weights = np.array([[0.2, 0.1, 0.7], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]])
    assert alignment(weights, ["a", " b", ""], ["x", " y", ""]) == "0-0 1-1"


def test_an_empty_token_within_a_word_does_not_end_it():
    assert alignment(np.eye(4), ["a", "", "b", " c"], ["x", "", "y", " z"]) == "0-0 1-1"


def test_punctuation_is_part_of_the_word_it_is_attached_to():
    source = ["Ja", ",", " „", "gut", "“", "!"]  # Ja, „gut“!
    output = ["(", "yes", ")", " -", " good", "."]  # (yes) - good.
    weights = np.full([6, 6], 0.01)
    weights[1, 0] = weights[3, 1] = weights[4, 5] = weights[5, 2] = 0.9
    assert alignment(weights, source, output) == "0-0 0-1 1-2"


@pytest.mark.parametrize("output", [[], [""], [" "], ["  ", "\n", ""]])
def test_an_output_without_words_has_no_links(output):
    assert alignment(np.ones([len(output), 2]), ["a", " b"], output) == ""


@pytest.mark.parametrize("source", [[], [""], [" ", ""]])
def test_a_source_without_words_has_no_links(source):
    assert alignment(np.ones([2, len(source)]), source, ["x", " y"]) == ""


@pytest.mark.parametrize("seed", range(5))
def test_every_word_of_a_split_at_blanks_has_one_link(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        source, output = [*random_tokens(rng), " word"], random_tokens(rng)
        links = links_of(alignment(rng.random([len(output), len(source)]), source, output))
        assert [word for _, word in links] == list(range(len("".join(output).split())))
        assert all(0 <= word < len("".join(source).split()) for word, _ in links)


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


def test_the_weights_are_not_modified():
    weights = np.eye(3, dtype="float32")
    alignment(weights, ["a", "b", ""], ["x", " y", ""])
    np.testing.assert_array_equal(weights, np.eye(3))
