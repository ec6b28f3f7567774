"""Phrases in outputs against exhaustive search, and how the beam is divided between banks."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from support.beams import beam_search
from support.random_model import Random, assert_finds

from t2t_lite.decoding.search.beam_search import BeamSearch
from t2t_lite.decoding.search.beam_state import NONE
from t2t_lite.decoding.search.constraints import NoRepeatNgram, Prefix
from t2t_lite.decoding.search.phrases import MISSING, Phrases, Places, allocated, phrase_places

EOS, VOCAB, LENGTH, WIDE = 1, 5, 5, 700  # more hypotheses than there are outputs
NO = (False,) * VOCAB
# Token 3 is the start of a word and token 4 its continuation, as "walk" and "ed"; the others are words.
BEGINS, ENDS = (False, False, False, False, True), (False, False, True, True, True)
# One token; one that repeats its beginning; two that overlap, of which both begin with what the other ends with.
PHRASES = [[[2]], [[3, 3, 4]], [[2, 3], [3, 2]]]
TWICE = [[[2], [2]], [[3, 4], [3, 4]], [[2], [3], [2]]]  # phrases that must occur twice


def rows_of(phrases):
    rows = [phrase_places(each) for each in phrases]
    length = max(1, *(len(row.tokens) for row in rows))
    return {
        f"phrase_{name}": tf.constant([getattr(row, name) + [0] * (length - len(row.tokens)) for row in rows])
        for name in Places._fields
    }


def search(model, phrases, beam_size=WIDE, rule=None, more=(), limits=None, **inputs):
    options = {"beam_size": beam_size, "alpha": 0.6, "max_length": model.length, "length_limits": limits}
    options |= {"constraints": (rule or Phrases(NO, NO), *more), "constraint_inputs": rows_of(phrases) | inputs}
    return beam_search(model.step(), (), len(phrases), model.vocab_size, **options)


def occurrences(tokens, phrase, begins=NO, ends=NO):
    """How often a phrase is in an output as whole words, without overlap."""
    around = (0, *tokens, EOS)  # neither continues a word
    free = found = 0
    for place in range(len(tokens) - len(phrase) + 1):
        is_here = tuple(tokens[place : place + len(phrase)]) == tuple(phrase)
        is_word = not (ends[around[place]] and begins[phrase[0]])
        is_word &= not (ends[phrase[-1]] and begins[around[place + len(phrase) + 1]])
        if place >= free and is_here and is_word:
            free, found = place + len(phrase), found + 1
    return found


def has_all(phrases, *flags):
    return lambda tokens: (
        0 not in tokens and all(occurrences(tokens, each, *flags) >= phrases.count(each) for each in phrases)
    )


def without_incomplete(result):
    """The outputs with all phrases: those that the length limit ended before are last."""
    lacks = result.scores < -MISSING / 2
    return result._replace(log_probs=tf.where(lacks, NONE, result.log_probs))


@pytest.mark.parametrize("flags", [(NO, NO), (BEGINS, ENDS)])
@pytest.mark.parametrize("given", [PHRASES, TWICE])
def test_a_wide_beam_finds_the_best_outputs_that_contain_all_phrases_as_whole_words(given, flags):
    model = Random(vocab_size=VOCAB, length=LENGTH)
    result = without_incomplete(search(model, given, rule=Phrases(*flags)))
    for sentence, phrases in enumerate(given):
        expected = model.best(sentence, has_all(phrases, *flags))
        assert 0 < len(expected) < WIDE
        assert_finds(result, sentence, expected)


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_a_narrow_beam_finds_an_output_that_contains_all_phrases(beam_size):
    model = Random(vocab_size=VOCAB, length=8)
    phrases = [[[2], [3]], [[3, 3, 4]], [[2, 3], [4, 4]]]
    result = search(model, phrases, beam_size)
    for sentence, each in enumerate(phrases):
        tokens = tuple(result.ids[sentence, 0, : result.lengths[sentence, 0]].numpy())
        assert has_all(each)(tokens), tokens
        log_prob = result.log_probs[sentence, 0]
        np.testing.assert_allclose(log_prob, model.log_prob(sentence, tokens), atol=1e-4)
        np.testing.assert_allclose(result.scores[sentence, 0], log_prob / ((5 + len(tokens)) / 6) ** 0.6, rtol=1e-4)


def test_a_sentence_without_phrases_is_searched_as_without_the_constraint():
    model = Random(vocab_size=VOCAB, length=8)
    result = search(model, [[], [[2, 3], [4]], []], 3)
    plain = beam_search(model.step(), (), 3, VOCAB, beam_size=3, alpha=0.6, max_length=8)
    for sentence in (0, 2):
        for part, expected in zip(result, plain):
            np.testing.assert_array_equal(part[sentence], expected[sentence])


def test_phrases_obey_prefixes_and_other_rules():
    model = Random(vocab_size=VOCAB, length=LENGTH)
    phrases, prefixes = [[[2]], [[3, 4]], [[4], [2]]], [(3, 4), (3, 0), (0, 0)]
    rules = (NoRepeatNgram(2), Prefix())
    result = search(model, phrases, more=rules, prefixes=tf.constant(prefixes))
    for sentence, (each, prefix) in enumerate(zip(phrases, [(3, 4), (3,), ()])):

        def allowed(tokens, each=each, prefix=prefix):
            pairs = list(itertools.pairwise(tokens))
            return tokens[: len(prefix)] == prefix and len(set(pairs)) == len(pairs) and has_all(each)(tokens)

        assert_finds(without_incomplete(result), sentence, model.best(sentence, allowed))


def test_outputs_that_the_limit_ends_too_early_rank_last_and_by_missing_tokens():
    model = Random(vocab_size=VOCAB, length=LENGTH)
    result = search(model, [[[2, 3, 4]], [[2]], [[2]]], limits=tf.constant([2, 1, 5]))
    assert (result.scores[0].numpy()[0] < -MISSING / 2) and (result.scores[1:, 0].numpy() > -MISSING / 2).all()
    assert result.ids[1, 0, 0] == 2
    missing = np.round(-result.scores[1].numpy()[result.log_probs[1] > -1e8] / MISSING)
    np.testing.assert_array_equal(missing, [0, 1, 1])  # the outputs 2, 3 and 4; the phrase has one token


@pytest.mark.slow
def test_a_compiled_search_finds_the_same():
    model = Random(vocab_size=VOCAB, length=6)
    find = lambda: search(model, PHRASES, 3)  # noqa: E731
    plain, compiled = (tf.function(find, autograph=False, jit_compile=jit)() for jit in (False, True))
    np.testing.assert_array_equal(plain.ids, compiled.ids)
    np.testing.assert_allclose(plain.scores, compiled.scores, rtol=1e-5)


def test_the_beam_is_shared_by_banks_and_the_rest_goes_to_the_higher_ones():
    merits = tf.constant([[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0, NONE]])
    banks = tf.constant([[0, 0, 0, 1, 2, 2, 2]])
    # The best of banks 2, 1 and 0, then the second best of 2 and 0 (1 has no other), then the third best of 0.
    assert allocated(merits, banks, tf.constant(4), 6).numpy().tolist() == [[4, 3, 0, 5, 1, 2]]
    assert allocated(merits, banks, tf.constant(4), 2).numpy().tolist() == [[4, 3]]
    assert allocated(merits, tf.zeros_like(banks), tf.constant(4), 3).numpy().tolist() == [[0, 1, 2]]


def test_places_are_the_tokens_of_all_phrases():
    assert phrase_places([[7, 8, 9], [4]]) == ([7, 8, 9, 4], [1, 2, 3, 1], [2, 2, 2, 3], [0, 0, 0, 0])
    assert phrase_places([[4], [7, 8], [4]]) == ([4, 7, 8, 4], [1, 1, 2, 1], [0, 2, 2, 3], [0, 0, 0, 1])
    assert phrase_places([]) == ([], [], [], [])


def test_a_search_with_phrases_has_one_group_and_no_other_guide():
    with pytest.raises(ValueError, match="a search with phrases must have one group"):
        BeamSearch(VOCAB, 4, 0.6, groups=2, constraints=(Phrases(NO, NO),))
    with pytest.raises(ValueError, match="one constraint can guide"):
        BeamSearch(VOCAB, 4, 0.6, constraints=(Phrases(NO, NO), Phrases(NO, ENDS)))
