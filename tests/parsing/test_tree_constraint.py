"""A search constrained to trees, compared with all trees, which are enumerated: what needs no repair."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from support.beams import beam_search

from t2t_lite.decoding.search.beam_search import Sampling
from t2t_lite.parsing.tree_constraint import TreeConstraint, TreeSymbols, WordConstraint
from t2t_lite.trees.linear import repair

TOKENS = ("<pad>", "</s>", "<unk>", "XX", "(S", ")S", "(NP", ")NP")
SYMBOLS = TreeSymbols.of(TOKENS)
EOS = 1
WIDE = 300  # more than the number of trees with 7 symbols over 3 words
ALPHA = 0.3


def tables(sentences, length, seed):
    """Logits by sentence, position and last token."""
    random = np.random.default_rng(seed)
    return (2.0 * random.normal(size=(sentences, length, len(TOKENS), len(TOKENS)))).astype("float32")


TREES, ALL_WORDS = TreeConstraint(SYMBOLS), WordConstraint(SYMBOLS.leaves)


def search(logits, leaf_counts, beam_size, compiled=False, constraint=TREES, **rules):
    table = tf.constant(logits)

    def step(ids, position, state, ancestry):
        return tf.gather(table[:, position], ids, batch_dims=1), state, None

    def run():
        sizes = {"beam_size": beam_size, "alpha": ALPHA, "max_length": logits.shape[1]}
        if constraint is not None:
            counts = "leaf_counts" if constraint is TREES else "word_counts"
            rules["constraints"] = (constraint,)
            rules["constraint_inputs"] = {counts: tf.constant(leaf_counts, tf.int32)}
        return beam_search(step, (), len(logits), len(TOKENS), **sizes, **rules)

    return tf.function(run, jit_compile=True)() if compiled else run()


def text_of(ids):
    return " ".join(TOKENS[token] for token in ids if token not in (0, EOS))


def is_tree(symbols, words):
    return not repair(symbols, words)[1]


def words(count):
    return [f"w{number}" for number in range(count)]


def outputs_of(constraint, count, length):
    """The ids, with the end symbol, of all outputs with `count` leaves and at most `length` tokens."""
    tokens = range(3 if constraint is TREES else 2, len(TOKENS))
    for symbols in range(1, length):
        for ids in itertools.product(tokens, repeat=symbols):
            if ids.count(3) == count and (constraint is ALL_WORDS or is_tree(text_of(ids), words(count))):
                yield (*ids, EOS)


def log_prob(logits, ids):
    rows = logits[range(len(ids)), (0, *ids[:-1])].astype("float64")
    return (rows[range(len(ids)), ids] - np.log(np.exp(rows).sum(1))).sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constraint", "count", "length"), [(TREES, 1, 6), (TREES, 2, 7), (TREES, 3, 7), (ALL_WORDS, 2, 5)]
)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_wide_search_finds_the_best_of_all_outputs_with_the_scores_of_the_model(constraint, count, length, compiled):
    logits = tables(3, length, seed=count)
    outputs = list(outputs_of(constraint, count, length))
    assert len(outputs) > 2
    found = search(logits, [count] * 3, WIDE, compiled=compiled, constraint=constraint)
    for sentence in range(3):
        scored = [(log_prob(logits[sentence], ids) / ((5 + len(ids)) / 6) ** ALPHA, ids) for ids in outputs]
        scores, expected = zip(*sorted(scored, reverse=True))
        exist = found.log_probs[sentence].numpy() > -1e8
        assert tuple(tuple(ids[ids > 0].tolist()) for ids in found.ids[sentence].numpy()[exist]) == expected
        np.testing.assert_allclose(found.scores[sentence].numpy()[exist], scores, rtol=1e-4)


@pytest.mark.parametrize(
    ("constraint", "beam_size"), [*((TREES, beam_size) for beam_size in (1, 4, 21)), (ALL_WORDS, 4)]
)
@pytest.mark.parametrize("room", [1, 2, 5, 20])
def test_outputs_of_any_model_are_trees_or_have_all_leaves_within_the_limit(constraint, beam_size, room):
    counts = np.arange(1, 13)
    limits = counts + room
    logits = tables(12, limits.max(), seed=room)
    found = search(logits, counts, beam_size, constraint=constraint, length_limits=limits)
    for count, limit, outputs, log_probs in zip(counts, limits, found.ids.numpy(), found.log_probs.numpy()):
        assert log_probs[0] > -1e8
        for ids in outputs[log_probs > -1e8]:
            tokens = ids[ids > 0]
            assert tokens[-1] == EOS and len(tokens) <= limit
            assert list(tokens).count(3) == count
            assert constraint is ALL_WORDS or is_tree(text_of(ids), words(count)), text_of(ids)


def test_an_unconstrained_search_of_the_same_model_writes_malformed_trees():
    found = search(tables(12, 20, seed=1), None, 4, constraint=None)
    assert not any(is_tree(text_of(ids), words(2)) for ids in found.ids[:, 0].numpy())


@pytest.mark.slow
def test_samples_are_trees():
    counts, beam_size = [2, 3], 6
    uniforms = tf.constant(np.random.default_rng(0).random((2, beam_size, 16), "float32"))
    rules = {"groups": beam_size, "sampling": Sampling(1.0), "uniforms": uniforms}
    drawn = search(tables(2, 16, seed=3), counts, beam_size, **rules)
    for count, outputs in zip(counts, drawn.ids.numpy()):
        assert len({text_of(ids) for ids in outputs}) > 1
        assert all(is_tree(text_of(ids), words(count)) for ids in outputs)


def test_symbols_are_recognised_by_spelling_and_labels_need_both_brackets():
    symbols = TreeSymbols.of(["<pad>", "</s>", "<unk>", "XX", "(A", ")B", "(B", "the", "(", ")"])
    assert symbols.opens == (0, 0, 0, 0, 0, 0, 1, 0, 0, 0)
    assert symbols.closes == (0, 0, 0, 0, 0, 1, 0, 0, 0, 0)
    assert symbols.leaves == tuple(place == 3 for place in range(10))
    assert TreeSymbols.of(["XX", "(NN", "NN", ")NN", "nn", ",", "-LRB-"]).leaves == (1, 0, 1, 0, 0, 1, 1)


@pytest.mark.parametrize(
    "tokens", [["<pad>", "the", "cat"], ["<pad>", "XX"], ["<pad>", "(S", ")S"], ["XX", "(S", ")NP"]]
)
def test_vocabularies_without_tree_symbols_are_refused(tokens):
    with pytest.raises(ValueError, match="no brackets with labels and no XX"):
        TreeSymbols.of(tokens)
