"""Batches of pairs of similar lengths: padding, target tokens, and how much an epoch differs from the next one."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.batching import cut_into_batches

BATCH_TOKENS = 25_000


def batches_of(lengths, seed, batch_by="both", batch_tokens=BATCH_TOKENS):
    seed = None if seed is None else tf.constant([1, seed], tf.int64)
    inputs, targets = (tf.constant(side, tf.int64) for side in lengths)
    return [np.array(rows) for rows in cut_into_batches(inputs, targets, batch_tokens, seed, batch_by).to_list()]


@pytest.fixture(scope="module")
def epoch(wmt_lengths):
    return batches_of(wmt_lengths, 1)


def padding_of(side, batches):
    return 1 - side.sum() / sum(side[batch].max() * len(batch) for batch in batches)


@pytest.mark.parametrize("seed", [1, None])
def test_batches_by_both_lengths_have_at_most_a_tenth_of_padding_on_either_side(wmt_lengths, seed):
    batches = batches_of(wmt_lengths, seed)
    assert all(padding_of(side, batches) < 0.1 for side in wmt_lengths)


def test_batches_by_target_lengths_have_little_padding_only_there(wmt_lengths):
    inputs, targets = (padding_of(side, batches_of(wmt_lengths, 1, "targets")) for side in wmt_lengths)
    assert targets < 0.02 and inputs > 0.2


def test_batches_have_equally_many_target_tokens(wmt_lengths, epoch):
    tokens = [wmt_lengths[1][batch].sum() for batch in epoch]
    assert len(epoch) == round(wmt_lengths[1].sum() / BATCH_TOKENS)
    assert min(tokens) > 0.98 * BATCH_TOKENS and max(tokens) < 1.02 * BATCH_TOKENS


def test_every_pair_is_in_one_batch(wmt_lengths, epoch):
    assert sorted(np.concatenate(epoch)) == list(range(len(wmt_lengths[0])))


@pytest.mark.parametrize("batch_by, most", [("both", 0.55), ("targets", 1.0)])
def test_more_of_a_batch_are_apart_in_the_next_epoch_by_both_lengths(wmt_lengths, batch_by, most):
    batch_in_next = np.empty(len(wmt_lengths[0]), int)
    for number, batch in enumerate(batches_of(wmt_lengths, 2, batch_by)):
        batch_in_next[batch] = number
    together = pairs = 0
    for batch in batches_of(wmt_lengths, 1, batch_by):
        counts = np.bincount(batch_in_next[batch])
        together += (counts * (counts - 1)).sum()
        pairs += len(batch) * (len(batch) - 1)
    assert most - 0.2 < together / pairs < most
