"""Batches of few shapes, for XLA: how many, how much padding, and that every pair is in one of them."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.batching import MOST_SHAPES, cut_into_shapes, fill_shapes, learn_batch_shapes, smallest_shapes

BATCH_TOKENS, DEVICES = 25_000, 8


@pytest.fixture(scope="module")
def shapes(wmt_lengths):
    return learn_batch_shapes(wmt_lengths[:, :20_000], BATCH_TOKENS, longest=256, batches=4 * 30)


@pytest.fixture(scope="module")
def epoch(wmt_lengths, shapes):
    """[(pairs, shape)] of an epoch."""
    rows, found = cut_into_shapes(*map(tf.constant, wmt_lengths), tf.constant([1, 2], tf.int64), shapes)
    return list(zip(map(np.array, rows.to_list()), found.numpy()))


def test_an_epoch_of_wmt_has_few_shapes_and_little_padding(wmt_lengths, shapes, epoch):
    used = {tuple(shape) for _, shape in epoch}
    assert len(shapes) <= MOST_SHAPES and len(used) <= 40
    positions = np.zeros(2)
    for _, shape in epoch:
        rows = -(-shape[2] // DEVICES) * DEVICES
        positions += rows * shape[:2]
    padding = 1 - wmt_lengths.sum(axis=1) / positions
    print(f"\n{len(epoch)} batches of {len(used)} shapes; padding {padding[0]:.1%} and {padding[1]:.1%}")
    assert all(padding < 0.15)


def test_every_pair_is_in_one_batch_whose_shape_holds_it(wmt_lengths, epoch):
    assert sorted(np.concatenate([pairs for pairs, _ in epoch])) == list(range(wmt_lengths.shape[1]))
    for pairs, (inputs, targets, rows) in epoch:
        assert len(pairs) <= rows
        assert wmt_lengths[0, pairs].max() <= inputs and wmt_lengths[1, pairs].max() <= targets


def test_batches_have_about_equally_many_target_tokens(wmt_lengths, epoch):
    tokens = np.array([wmt_lengths[1, pairs].sum() for pairs, _ in epoch]) / BATCH_TOKENS
    assert np.mean((tokens > 0.9) & (tokens < 1.1)) > 0.9
    assert tokens.max() < 1.15 and np.mean(tokens) > 0.95


def test_a_pair_has_the_first_shape_that_holds_it():
    shapes = np.array([[3, 4], [5, 4], [4, 6], [9, 9]])
    lengths = np.array([[3, 1, 4, 3, 5, 6, 9], [4, 1, 4, 5, 5, 1, 9]])
    assert smallest_shapes(lengths, shapes).tolist() == [0, 0, 1, 2, 3, 3, 3]


def test_what_does_not_fill_a_batch_joins_larger_pairs():
    shapes = np.array([[2, 2, 4], [5, 1, 2], [4, 4, 3], [9, 9, 2]])
    lengths = np.array([[2] * 6 + [5] * 2 + [4] * 2 + [9], [2] * 6 + [1] * 2 + [4] * 2 + [9]])
    order, sizes, shape_of = fill_shapes(lengths, np.arange(11), shapes)
    assert sizes.tolist() == [4, 2, 3, 2] and shape_of.tolist() == [0, 1, 2, 3]
    assert order.tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 4, 10, 5]
