"""Beam search against exhaustive, greedy and plain NumPy searches over small random models."""

import numpy as np
import pytest
import tensorflow as tf
from support.beams import beam_search
from support.random_model import EOS, Random, log_softmax, plain_search

from t2t_lite.decoding.search.length_penalty import length_penalty

EMPTY = -1e9  # score of a slot without hypothesis


class History:
    """Logits that depend on all tokens so far, which a step has to look up by the ancestry."""

    size = 997  # prime, so that the hash spreads

    def __init__(self, sentences, vocab_size, max_length, seed=0):
        random = np.random.default_rng(seed)
        self.table = (2 * random.normal(size=(self.size, vocab_size))).astype(np.float32)
        self.weights = random.integers(1, self.size, size=max_length).astype(np.int32)
        self.offsets = random.integers(1, self.size, size=sentences).astype(np.int32)
        self.vocab_size, self.length = vocab_size, max_length

    def log_probs(self, sentence, history):
        seen = np.zeros(self.length, np.int64)
        seen[1 : len(history) + 1] = history  # the step sees the tokens one position later, after the start symbol
        key = (self.offsets[sentence] + len(history) * 31 + np.sum(seen * self.weights)) % self.size
        return log_softmax(self.table[key].astype(np.float64))

    def search(self, beam_size, batch_size=None, **options):
        count = len(self.offsets)

        def step(ids, position, state, ancestry):
            # The tokens that each beam saw at each position stay where they were written; ancestry locates them.
            here = tf.range(self.length) == position
            written = tf.where(here, ids[:, :, tf.newaxis], state["written"])  # [batch, beam, max_length]
            by_position = tf.transpose(written, [0, 2, 1])  # [batch, max_length, beam]
            ancestors = tf.transpose(ancestry.ancestors, [0, 2, 1])
            seen = tf.gather(by_position[:, : tf.shape(ancestors)[1]], tf.maximum(ancestors, 0), batch_dims=2)
            seen = tf.transpose(tf.where(ancestors < 0, 0, seen), [0, 2, 1])
            weighted = tf.reduce_sum(seen * tf.constant(self.weights)[: tf.shape(seen)[2]], -1)
            key = (self.offsets[:, np.newaxis] + position * 31 + weighted) % self.size
            # A state of another type and rank that is passed from parent to child.
            total = tf.gather(state["more"][0], ancestry.parents, batch_dims=1)
            total += tf.cast(ids, tf.float32)[:, :, tf.newaxis]
            wrong = total != tf.cast(tf.reduce_sum(seen, -1, keepdims=True), tf.float32)
            logits = tf.where(wrong, 0.0, tf.gather(self.table, key))
            return logits, {"written": written, "more": (total,)}, None

        written = tf.zeros([count, beam_size, self.length], tf.int32)
        state = {"written": written, "more": (tf.zeros([count, beam_size, 1]),)}
        batch_size = count if batch_size is None else batch_size
        options = {"alpha": 0.6, "max_length": self.length, "never": ()} | options
        return beam_search(step, state, batch_size, self.vocab_size, beam_size=beam_size, **options)


def assert_sentence(result, sentence, expected):
    """The result of a sentence is the list `expected` of (score, log_prob, tokens), then empty slots."""
    result = [part[sentence].numpy() for part in result]
    for ids, length, log_prob, value, (want_score, want_log_prob, tokens) in zip(*result, expected, strict=False):
        assert tuple(ids[:length]) == tokens and not ids[length:].any()
        np.testing.assert_allclose([log_prob, value], [want_log_prob, want_score], rtol=1e-5, atol=1e-5)
    ids, lengths, log_probs, scores = (part[len(expected) :] for part in result)
    assert not ids.any() and not lengths.any() and (log_probs == EMPTY).all() and (scores == EMPTY).all()


def assert_same(one, other):
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.lengths, other.lengths)
    np.testing.assert_allclose(one.log_probs, other.log_probs, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6, atol=1e-6)


PENALTIES = [(0.0, "wu"), (0.6, "wu"), (1.0, "wu"), (0.6, "power"), (1.4, "power")]


@pytest.mark.parametrize(("alpha", "penalty"), PENALTIES)
@pytest.mark.parametrize("limits", [None, [4, 1, 3, 9]])
@pytest.mark.parametrize("beam_size", [130, 64])  # more than the 121 possible outputs; just enough to keep every prefix
def test_wide_beam_equals_exhaustive_search(alpha, penalty, limits, beam_size):
    model = Random(sentences=4, vocab_size=4, length=4, penalty=penalty)
    result = model.search(beam_size, alpha=alpha, length_limits=limits)
    for sentence in range(4):
        expected = model.best(sentence, alpha=alpha, limit=min((limits or [4] * 4)[sentence], 4))
        assert_sentence(result, sentence, expected[:beam_size])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_one_beam_is_greedy_search(alpha):
    model = Random(sentences=20, vocab_size=6, length=8)
    result = model.search(1, alpha=alpha)
    for sentence in range(20):
        assert_sentence(result, sentence, plain_search(model, sentence, 1, alpha, 8))
    assert len(set(result.lengths.numpy().ravel())) > 3  # the comparison saw early and late ends


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("beam_size", [2, 4])
def test_state_follows_its_hypothesis(alpha, beam_size):
    model = History(sentences=12, vocab_size=7, max_length=9)
    result = model.search(beam_size, alpha=alpha)
    for sentence in range(12):
        assert_sentence(result, sentence, plain_search(model, sentence, beam_size, alpha, 9))


@pytest.mark.parametrize("vocab_size", [512, 509])  # divisible into blocks, and prime
@pytest.mark.parametrize("beam_size", [1, 4])
def test_large_vocabulary(vocab_size, beam_size):
    model = History(sentences=5, vocab_size=vocab_size, max_length=5)
    model.table[:, EOS] += 5
    result = model.search(beam_size)
    for sentence in range(5):
        assert_sentence(result, sentence, plain_search(model, sentence, beam_size, 0.6, 5))


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_result_does_not_depend_on_the_other_sentences(alpha):
    model = Random(sentences=10, vocab_size=6, length=10, spread=3.0)
    limits = np.random.default_rng(1).integers(2, 11, size=10)
    together = model.search(4, alpha=alpha, length_limits=limits)
    for sentence in range(10):
        alone = model.search(4, [sentence], alpha=alpha, length_limits=limits[sentence : sentence + 1])
        assert_same(alone, type(together)(*(part[sentence : sentence + 1] for part in together)))
    order = np.random.default_rng(2).permutation(10)
    shuffled = model.search(4, order, alpha=alpha, length_limits=limits[order])
    assert_same(shuffled, type(together)(*(tf.gather(part, order) for part in together)))


@pytest.mark.parametrize(("alpha", "penalty"), PENALTIES[:4])  # at 1.4, a longer output may always be better
def test_early_stop_changes_nothing(alpha, penalty):
    model = Random(sentences=6, vocab_size=5, length=40, spread=1.0, penalty=penalty)
    model.logits[..., EOS] += 2  # outputs of a few tokens
    result = model.search(4, alpha=alpha)
    assert model.positions_run < 40
    for sentence in range(6):
        assert_sentence(result, sentence, plain_search(model, sentence, 4, alpha, 40))


def test_forced_end_at_the_limit():
    model = Random(sentences=3, vocab_size=5, length=6)
    model.logits[..., EOS] = -1e9  # the model never produces the end symbol
    result = model.search(4, length_limits=[6, 2, 0])  # no output is shorter than one token
    np.testing.assert_array_equal(result.lengths, [[6] * 4, [2] * 4, [1] * 4])
    assert EOS not in result.ids.numpy()
    for sentence, limit in enumerate([6, 2, 1]):
        assert_sentence(result, sentence, plain_search(model, sentence, 4, 0.6, limit))


@pytest.mark.parametrize("masked", [-1e9, -np.inf])
def test_vocabulary_smaller_than_the_beam(masked):
    model = Random(sentences=2, vocab_size=2, length=3)
    for sentence in range(2):
        assert_sentence(model.search(8), sentence, model.best(sentence))  # 4 outputs in 8 slots
    model.logits[:, 1:, :, 0] = masked  # only two outputs are left: end at once, or after one token
    result = model.search(8)
    np.testing.assert_array_equal(np.sort(result.lengths[:, :2], -1), [[1, 2]] * 2)
    assert (result.scores[:, :2] > -100).numpy().all() and (result.scores[:, 2:] == EMPTY).numpy().all()
    assert not result.ids[:, 2:].numpy().any() and not result.lengths[:, 2:].numpy().any()
    only_end = Random(sentences=2, vocab_size=2, length=30)
    only_end.logits[..., 0] = masked
    np.testing.assert_array_equal(only_end.search(3).lengths, [[1, 0, 0]] * 2)
    assert only_end.positions_run == 1  # nothing is alive after it


@pytest.mark.slow
def test_compiled_equals_uncompiled():
    model = History(sentences=5, vocab_size=9, max_length=8)
    limits = [8, 3, 5, 1, 8]
    search = lambda: model.search(4, length_limits=limits)  # noqa: E731
    eager = search()
    assert_same(tf.function(search)(), eager)
    assert_same(tf.function(search, jit_compile=True)(), eager)


def test_sizes_known_only_at_run_time():
    model = History(sentences=3, vocab_size=6, max_length=7)

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32)])
    def search(batch_size, max_length):
        return model.search(4, batch_size, max_length=max_length)

    assert_same(search(3, 7), model.search(4))
    assert search(3, 5).ids.shape == (3, 4, 5)


def test_half_precision_logits():
    model = Random(sentences=3, vocab_size=5, length=4)
    model.logits = tf.cast(tf.cast(model.logits, tf.bfloat16), tf.float32).numpy()
    assert_same(model.search(4, dtype=tf.bfloat16), model.search(4))


def test_wrong_vocabulary_size_is_refused():
    model = Random(sentences=1, vocab_size=5, length=4)
    model.vocab_size = 6
    with pytest.raises(ValueError, match="shape"):
        tf.function(lambda: model.search(2))()


@pytest.mark.parametrize(("length", "alpha", "expected"), [(1, 0.6, 1), (7, 1.0, 2), (19, 0.5, 2), (9, 0.0, 1)])
def test_the_length_penalty_is_the_same_for_numbers_arrays_and_tensors(length, alpha, expected):
    for kind in (int, np.array, tf.constant):
        np.testing.assert_allclose(length_penalty(kind(length), alpha), expected, rtol=1e-6)
    assert length_penalty(tf.constant(length), alpha).dtype == tf.float32
