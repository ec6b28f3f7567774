"""Batches of pairs of similar lengths or of few shapes, and functions of NumPy in a pipeline."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data import batching

BATCH_TOKENS, DEVICES = 25_000, 8


@pytest.fixture(scope="module")
def lengths():
    """Lengths of inputs and targets like those of a window of WMT, int64 [2, pairs].

    Both have a log-normal distribution with a mean of about 30; most pairs have similar lengths, one in twelve has not.
    """
    rng = np.random.default_rng(0)
    inputs = np.exp(rng.normal(np.log(25), 0.65, 2**17))
    ratios = np.exp(rng.normal(0.03, np.where(rng.random(2**17) < 0.08, 0.5, 0.2)))
    sides = np.stack([inputs, inputs * ratios]).round().astype("int64") + 2
    return sides[:, sides.max(axis=0) <= 256]


def batches_of(lengths, seed, batch_by="both"):
    seed = None if seed is None else tf.constant([1, seed], tf.int64)
    batches = batching.cut_into_batches(*map(tf.constant, lengths), BATCH_TOKENS, seed, batch_by)
    return [np.array(rows) for rows in batches.to_list()]


def padding_of(side, batches):
    return 1 - side.sum() / sum(side[batch].max() * len(batch) for batch in batches)


def test_batches_have_little_padding_on_the_sides_that_they_are_made_by(lengths):
    for seed in (1, None):
        batches = batches_of(lengths, seed)
        assert all(padding_of(side, batches) < 0.1 for side in lengths)
    inputs, targets = (padding_of(side, batches_of(lengths, 1, "targets")) for side in lengths)
    assert targets < 0.02 and inputs > 0.2


def test_batches_have_equally_many_target_tokens_and_every_pair_is_in_one(lengths):
    batches = batches_of(lengths, 1)
    tokens = [lengths[1][batch].sum() for batch in batches]
    assert len(batches) == round(lengths[1].sum() / BATCH_TOKENS)
    assert min(tokens) > 0.98 * BATCH_TOKENS and max(tokens) < 1.02 * BATCH_TOKENS
    assert sorted(np.concatenate(batches)) == list(range(len(lengths[0])))


@pytest.mark.parametrize("batch_by, most", [("both", 0.55), ("targets", 1.0)])
def test_more_of_a_batch_are_apart_in_the_next_epoch_by_both_lengths(lengths, batch_by, most):
    batch_in_next = np.empty(len(lengths[0]), int)
    for number, batch in enumerate(batches_of(lengths, 2, batch_by)):
        batch_in_next[batch] = number
    together = pairs = 0
    for batch in batches_of(lengths, 1, batch_by):
        counts = np.bincount(batch_in_next[batch])
        together += (counts * (counts - 1)).sum()
        pairs += len(batch) * (len(batch) - 1)
    assert most - 0.2 < together / pairs < most


def test_an_epoch_has_few_shapes_that_hold_every_pair_once_with_little_padding(lengths):
    shapes = batching.learn_batch_shapes(lengths[:, :20_000], BATCH_TOKENS, longest=256, batches=4 * 30)
    rows, found = batching.cut_into_shapes(*map(tf.constant, lengths), tf.constant([1, 2], tf.int64), shapes)
    epoch = list(zip(map(np.array, rows.to_list()), found.numpy()))
    assert len(shapes) <= batching.MOST_SHAPES and len({tuple(shape) for _, shape in epoch}) <= 40
    assert sorted(np.concatenate([pairs for pairs, _ in epoch])) == list(range(lengths.shape[1]))
    positions = np.zeros(2)
    for pairs, (inputs, targets, rows) in epoch:
        assert len(pairs) <= rows
        assert lengths[0, pairs].max() <= inputs and lengths[1, pairs].max() <= targets
        positions += -(-rows // DEVICES) * DEVICES * np.array([inputs, targets])
    assert all(1 - lengths.sum(axis=1) / positions < 0.15)
    tokens = np.array([lengths[1, pairs].sum() for pairs, _ in epoch]) / BATCH_TOKENS
    assert np.mean((tokens > 0.9) & (tokens < 1.1)) > 0.9
    assert tokens.max() < 1.15 and np.mean(tokens) > 0.95


def test_a_pair_has_the_first_shape_that_holds_it():
    shapes = np.array([[3, 4], [5, 4], [4, 6], [9, 9]])
    lengths = np.array([[3, 1, 4, 3, 5, 6, 9], [4, 1, 4, 5, 5, 1, 9]])
    assert batching.smallest_shapes(lengths, shapes).tolist() == [0, 0, 1, 2, 3, 3, 3]


def test_what_does_not_fill_a_batch_joins_larger_pairs():
    shapes = np.array([[2, 2, 4], [5, 1, 2], [4, 4, 3], [9, 9, 2]])
    lengths = np.array([[2] * 6 + [5] * 2 + [4] * 2 + [9], [2] * 6 + [1] * 2 + [4] * 2 + [9]])
    order, sizes, shape_of = batching.fill_shapes(lengths, np.arange(11), shapes)
    assert sizes.tolist() == [4, 2, 3, 2] and shape_of.tolist() == [0, 1, 2, 3]
    assert order.tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 4, 10, 5]


# A module's iterator is deleted when the interpreter ends, while a function runs in one of the pipeline's threads.
PROGRAM = """
import time
import tensorflow as tf
from t2t_lite.data.batching import call_numpy

def slow(number):
    time.sleep(0.02)
    return number

numbers = tf.data.Dataset.range(2**40).map(lambda number: call_numpy(slow, [number], [tf.int64])[0])
iterator = iter(numbers.prefetch(1000))
next(iterator)
print("end")
"""


def test_a_function_can_return_one_array_or_several():
    (doubled,) = batching.call_numpy(lambda numbers: 2 * numbers, [tf.range(3)], [tf.int32])
    same, total = batching.call_numpy(
        lambda numbers: (numbers, np.float32(numbers.sum())), [tf.range(3)], [tf.int32, tf.float32]
    )
    assert doubled.numpy().tolist() == [0, 2, 4]
    assert same.numpy().tolist() == [0, 1, 2] and total.numpy() == 3


@pytest.mark.slow
def test_a_program_ends_while_a_pipeline_reads_ahead():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0 and ended.stdout == "end\n", ended.stderr
