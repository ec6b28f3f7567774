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


def test_another_seed_makes_other_batches(wmt_lengths, shapes, epoch):
    rows, _ = cut_into_shapes(*map(tf.constant, wmt_lengths), tf.constant([1, 3], tf.int64), shapes)
    batch_in_next = np.empty(wmt_lengths.shape[1], int)
    for number, pairs in enumerate(rows.to_list()):
        batch_in_next[pairs] = number
    together = total = 0
    for pairs, _ in epoch:
        counts = np.bincount(batch_in_next[pairs])
        together += (counts * (counts - 1)).sum()
        total += len(pairs) * (len(pairs) - 1)
    assert together / total < 0.5


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


@pytest.mark.parametrize("batch_tokens", [1, 7, 10**6])
def test_few_pairs_make_batches_of_any_size(batch_tokens):
    lengths = np.array([[5, 300, 2, 2, 9], [1, 2, 40_000, 2, 2]])
    shapes = learn_batch_shapes(lengths, batch_tokens, 40_000, batches=5)
    order, sizes, _ = fill_shapes(lengths, np.zeros(5, int), shapes)
    assert sorted(order) == [0, 1, 2, 3, 4] and all(sizes > 0)


def test_no_pairs_make_no_batch():
    assert learn_batch_shapes(np.zeros([2, 0], int), 100, longest=10, batches=0)[-1].tolist() == [10, 10, 10]
    order, sizes, shape_of = fill_shapes(np.zeros([2, 0], int), np.zeros(0, int), np.array([[1, 1, 1]]))
    assert not len(order) and not len(sizes) and not len(shape_of)
