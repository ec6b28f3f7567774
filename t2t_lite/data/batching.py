"""Divides pairs into batches with similar lengths and about the same number of target tokens."""

import dataclasses

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.data.batch_shapes import fill_shapes
from t2t_lite.data.numpy_calls import call_numpy

_LONGEST = 2**15  # when sorting by target length, longer texts count as this long
_DRAWS = 2**24  # upper bound of the random numbers that order pairs of equal length
# When batching by both lengths, each division gives its first part a random share of the batches in this range.
_SHARES = 0.35, 0.65


@dataclasses.dataclass(frozen=True)
class HostShare:
    """The share of each global batch that one host gets: contiguous rows, the same number on every device."""

    devices: int  # number of devices on all hosts
    first: int  # the host's first device
    number: int  # number of the host's devices

    def rows_per_device(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns the number of rows on a device, for batches of `rows` rows; the last devices may get fewer."""
        return -(-rows // self.devices)

    def select(self, batches: Array, rows: tf.Tensor) -> Array:
        """Returns the host's part of each batch, int64 [batches, (pairs)]. `rows` counts padding rows too."""
        share = self.rows_per_device(rows)
        lengths = batches.row_lengths()
        start = tf.minimum(self.first * share, lengths)
        end = tf.minimum((self.first + self.number) * share, lengths)
        places = tf.ragged.range(lengths)
        return tf.ragged.boolean_mask(batches, (places >= start[:, tf.newaxis]) & (places < end[:, tf.newaxis]))


def cut_into_batches(
    input_lengths: tf.Tensor,
    target_lengths: tf.Tensor,
    batch_tokens: int,
    seed: tf.Tensor | None,
    batch_by: str = "targets",
) -> Array:
    """Returns the indices of the pairs in each batch, int64 [batches, (rows)]; the batches are in random order.

    Batching by "both" lengths leaves little padding on either side and gives different batches in each epoch. Batching
    by "targets", as in versions up to 0.9, minimizes padding on the target side. Without a seed, int64 [2], batches
    stay in the order in which they are made.
    """
    total = tf.reduce_sum(target_lengths)
    number = tf.maximum(tf.cast(tf.round(total / batch_tokens), tf.int64), 1)
    if batch_by == "targets":
        order = _by_targets(input_lengths, target_lengths, seed)
        lengths = tf.gather(target_lengths, order)
        batch_of = tf.cumsum(lengths, exclusive=True) * number // tf.maximum(total, 1)
    else:
        order, batch_of = _by_both(input_lengths, target_lengths, number, seed)
    rows = tf.RaggedTensor.from_value_rowids(  # pyright: ignore[reportAttributeAccessIssue]
        tf.cast(order, tf.int64), batch_of, nrows=number
    )
    rows = tf.ragged.boolean_mask(rows, rows.row_lengths() > 0)
    return rows if seed is None else tf.gather(rows, _random_order(rows.nrows(), seed))


def cut_into_shapes(
    input_lengths: tf.Tensor, target_lengths: tf.Tensor, seed: tf.Tensor, shapes: np.ndarray
) -> tuple[Array, tf.Tensor]:
    """Returns (the indices of the pairs in each batch, int64 [batches, (rows)]; batch shapes, int64 [batches, 3]).

    A shape is (inputs length, targets length, rows), see `learn_batch_shapes`. Batches are in random order.
    """
    draws = tf.random.stateless_uniform(tf.shape(target_lengths), seed, 0, _DRAWS, tf.int64)
    lengths = tf.stack([input_lengths, target_lengths])
    order, sizes, shape_of = (
        tf.ensure_shape(tensor, [None]) for tensor in call_numpy(fill_shapes, [lengths, draws, shapes], 3 * [tf.int64])
    )
    rows = tf.RaggedTensor.from_row_lengths(order, sizes)  # pyright: ignore[reportAttributeAccessIssue]
    batches = _random_order(rows.nrows(), seed)
    return tf.gather(rows, batches), tf.gather(shapes, tf.gather(shape_of, batches))


def _random_order(batches: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    # A new seed, because the old one would give the batches the same random numbers as the pairs.
    return tf.argsort(tf.random.stateless_uniform(tf.reshape(batches, [1]), fold_in(seed, 1)))


def fold_in(seed: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(seed, number)  # pyright: ignore[reportAttributeAccessIssue]


def _by_targets(input_lengths: tf.Tensor, target_lengths: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
    """Returns the order of pairs by target length, then by input length, int32 [pairs].

    Input lengths ascend for one target length and descend for the next, so that they do not jump within a batch that
    spans two target lengths. Pairs of equal lengths are shuffled.
    """
    up, targets = tf.minimum(input_lengths, _LONGEST), tf.minimum(target_lengths, _LONGEST)
    key = (targets * (2 * _LONGEST) + tf.where(tf.math.floormod(targets, 2) == 0, up, _LONGEST - up)) * _DRAWS
    if seed is not None:
        key += tf.random.stateless_uniform(tf.shape(key), seed, 0, _DRAWS, tf.int64)
    return tf.argsort(key, stable=True)


def _by_both(
    input_lengths: tf.Tensor, target_lengths: tf.Tensor, number: tf.Tensor, seed: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (the order of pairs, the batch of each pair in this order), both int64 [pairs]."""
    pairs, divisions = tf.shape(target_lengths), tf.reshape(number, [1])
    draws, shares = tf.zeros(pairs, tf.int64), tf.fill(divisions, 0.5)
    if seed is not None:
        draws = tf.random.stateless_uniform(pairs, seed, 0, _DRAWS, tf.int64)
        shares = tf.random.stateless_uniform(divisions, fold_in(seed, 2), *_SHARES)
    lengths = tf.stack([input_lengths, target_lengths])
    order, batch_of = call_numpy(_divide, [lengths, draws, shares], [tf.int64, tf.int64])
    return tf.ensure_shape(order, [None]), tf.ensure_shape(batch_of, [None])


def _divide(lengths: np.ndarray, draws: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divides pairs in two recursively, each time by the side that leaves less padding, until each part is a batch.

    `lengths` is int64 [2, pairs]; `draws`, int64 [pairs], orders pairs of equal length; `shares`, float32 [batches], is
    the share of the batches in the first part of each division. Returns the same as `_by_both`.
    """
    orders = [np.argsort(side * _DRAWS + draws, kind="stable") for side in lengths]
    is_first = np.zeros(lengths.shape[1], bool)
    made, divisions, parts = [], 0, [(orders, len(shares))]
    while parts:
        orders, number = parts.pop()
        if number == 1 or not len(orders[0]):
            made.append(orders[1])
            continue
        share = shares[divisions] if number > 3 else 0.5
        divisions += 1
        before = min(max(int(number * share + 0.5), 1), number - 1)
        first, _ = min((_first_part(lengths, order, before / number) for order in orders), key=lambda split: split[1])
        is_first[first] = True
        masks = [is_first[order] for order in orders]
        parts.append(([order[~mask] for order, mask in zip(orders, masks)], number - before))
        parts.append(([order[mask] for order, mask in zip(orders, masks)], before))
        is_first[first] = False
    return np.concatenate(made), np.repeat(np.arange(len(made)), [len(batch) for batch in made])


def _first_part(lengths: np.ndarray, order: np.ndarray, share: float) -> tuple[np.ndarray, int]:
    """Divides pairs into two parts. Returns (the first part, the number of positions in both parts with padding).

    The first part is the start of `order`, with about `share` of the target tokens.
    """
    tokens = np.cumsum(lengths[1][order])
    end = int(np.searchsorted(tokens, tokens[-1] * share))
    sides = (order[:end], order[end:])
    return sides[0], sum(int(lengths[:, side].max(axis=1).sum()) * len(side) for side in sides if len(side))
