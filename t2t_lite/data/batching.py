"""Divides pairs into batches with similar lengths and about the same number of target tokens."""

import atexit
import dataclasses
import functools
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array

RaggedTensor: Any = tf.RaggedTensor  # its constructors have no types
_LONGEST = 2**15  # when sorting by target length, longer texts count as this long
_DRAWS = 2**24  # upper bound of the random numbers that order pairs of equal length
# When batching by both lengths, each division gives its first part a random share of the batches in this range.
_SHARES = 0.35, 0.65
# Compiling a step takes about a minute per shape on a GPU; more shapes reduce padding.
MOST_SHAPES = 40
# At least this many batches per shape on average, because a shape's leftover pairs are padded to a larger shape.
_BATCHES_OF_SHAPE = 3
# Rows are a multiple of this, so that 2, 4 or 8 devices get equal shares; small batches may have any number.
_ROWS = 8
# At the end of the program, pipelines have stopped if none has called a function for this long.
_QUIET_SECONDS = 0.05


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
        # By target length, then by input length. Input lengths ascend for one target length and descend for the next,
        # so that they do not jump within a batch that spans two target lengths. Pairs of equal lengths are shuffled.
        up, targets = tf.minimum(input_lengths, _LONGEST), tf.minimum(target_lengths, _LONGEST)
        key = (targets * (2 * _LONGEST) + tf.where(tf.math.floormod(targets, 2) == 0, up, _LONGEST - up)) * _DRAWS
        if seed is not None:
            key += tf.random.stateless_uniform(tf.shape(key), seed, 0, _DRAWS, tf.int64)
        order = tf.argsort(key, stable=True)
        lengths = tf.gather(target_lengths, order)
        batch_of = tf.cumsum(lengths, exclusive=True) * number // tf.maximum(total, 1)
    else:
        pairs, divisions = tf.shape(target_lengths), tf.reshape(number, [1])
        draws, shares = tf.zeros(pairs, tf.int64), tf.fill(divisions, 0.5)
        if seed is not None:
            draws = tf.random.stateless_uniform(pairs, seed, 0, _DRAWS, tf.int64)
            shares = tf.random.stateless_uniform(divisions, fold_in(seed, 2), *_SHARES)
        lengths = tf.stack([input_lengths, target_lengths])
        order, batch_of = (
            tf.ensure_shape(tensor, [None])
            for tensor in call_numpy(_divide, [lengths, draws, shares], [tf.int64, tf.int64])
        )
    rows = RaggedTensor.from_value_rowids(tf.cast(order, tf.int64), batch_of, nrows=number)
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
    rows = RaggedTensor.from_row_lengths(order, sizes)
    batches = _random_order(rows.nrows(), seed)
    return tf.gather(rows, batches), tf.gather(shapes, tf.gather(shape_of, batches))


def _random_order(batches: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    # A new seed, because the old one would give the batches the same random numbers as the pairs.
    return tf.argsort(tf.random.stateless_uniform(tf.reshape(batches, [1]), fold_in(seed, 1)))


def fold_in(seed: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(seed, number)  # pyright: ignore[reportAttributeAccessIssue]


def _divide(lengths: np.ndarray, draws: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divides pairs in two recursively, each time by the side that leaves less padding, until each part is a batch.

    `lengths` is int64 [2, pairs]; `draws`, int64 [pairs], orders pairs of equal length; `shares`, float32 [batches], is
    the share of the batches in the first part of each division. Returns (the order of pairs, the batch of each pair in
    this order), both int64 [pairs].
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


def learn_batch_shapes(lengths: np.ndarray, batch_tokens: int, longest: int, batches: int) -> np.ndarray:
    """Returns batch shapes in ascending order, int64 [shapes, 3]: inputs length, targets length, rows.

    They are few, because XLA compiles a step for each shape. The pairs are repeatedly divided in two by length, each
    time where this saves the most padding; each part gets a shape. A batch of any shape has about `batch_tokens` target
    tokens, without padding. The last shape fits the longest pairs. `lengths` are those of a sample of pairs, int64
    [2, pairs]; `longest` is the longest side in all pairs. `batches` is the number per window of pairs; fewer batches
    get fewer shapes.
    """
    most = min(MOST_SHAPES - 1, max(batches // _BATCHES_OF_SHAPE, 1))
    numbers = itertools.count()  # breaks ties, so that arrays are never compared
    parts = [(-_division(lengths)[0], next(numbers), lengths)]
    while len(parts) < most and parts[0][0] < 0:
        part = heapq.heappop(parts)[2]
        is_short = _division(part)[1]
        for half in (part[:, is_short], part[:, ~is_short]):
            heapq.heappush(parts, (-_division(half)[0], next(numbers), half))
    boxes = {tuple(part.max(axis=1, initial=1).tolist()) for *_, part in parts} | {(longest, longest)}
    shapes = np.array(sorted(boxes, key=lambda box: (sum(box), box)))
    shape_of = smallest_shapes(lengths, shapes)
    tokens = np.bincount(shape_of, lengths[1], len(shapes))
    means = np.where(tokens > 0, tokens / np.maximum(np.bincount(shape_of, minlength=len(shapes)), 1), shapes[:, 1])
    rows = np.maximum(batch_tokens / means, 1)
    rows = np.where(rows < 4 * _ROWS, np.floor(rows), np.round(rows / _ROWS) * _ROWS)
    return np.concatenate([shapes, rows[:, None].astype(np.int64)], axis=1)


def _division(lengths: np.ndarray) -> tuple[int, np.ndarray]:
    """Returns (positions saved by the best division in two, mask of the pairs in the shorter part, bool [pairs])."""
    pairs = lengths.shape[1]
    best = (0, np.ones(pairs, bool))
    for side in lengths:
        order = np.argsort(side, kind="stable")
        ascending = lengths[:, order]
        short = np.maximum.accumulate(ascending, axis=1).sum(axis=0)
        long = np.maximum.accumulate(ascending[:, ::-1], axis=1)[:, ::-1].sum(axis=0)
        before = np.flatnonzero(np.diff(side[order]))  # the last pair of each length except the longest
        if not len(before):
            continue
        saved = short[-1] * pairs - short[before] * (before + 1) - long[before + 1] * (pairs - before - 1)
        if saved.max() > best[0]:
            best = (int(saved.max()), side <= side[order[before[saved.argmax()]]])
    return best


def smallest_shapes(lengths: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """Returns the index of the first shape that fits each pair, int64 [pairs]."""
    shape_of = np.full(lengths.shape[1], len(shapes) - 1)
    for index in reversed(range(len(shapes) - 1)):
        shape_of[(lengths[0] <= shapes[index, 0]) & (lengths[1] <= shapes[index, 1])] = index
    return shape_of


def fill_shapes(lengths: np.ndarray, draws: np.ndarray, shapes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns (the order of pairs, the number of pairs in each batch, the index of each batch's shape), all int64.

    Each pair goes to the smallest shape that fits it. Pairs that do not fill a batch move on to the next larger shape,
    so only batches of the last shape may have fewer rows. `lengths` is int64 [2, pairs]; `draws`, int64 [pairs], orders
    the pairs of the same shape.
    """
    smallest = smallest_shapes(lengths, shapes)
    order = np.lexsort((draws, smallest))
    waiting = np.split(order, np.searchsorted(smallest[order], np.arange(1, len(shapes))))
    batches, shape_of = [], []
    for index, (inputs, targets, rows) in enumerate(shapes):
        pairs = waiting[index]
        larger = np.flatnonzero((shapes[:, 0] >= inputs) & (shapes[:, 1] >= targets))
        larger = larger[larger > index]
        number = len(pairs) // rows if len(larger) else -(-len(pairs) // rows)
        if len(larger):
            waiting[larger[0]] = np.concatenate([waiting[larger[0]], pairs[number * rows :]])
            pairs = pairs[: number * rows]
        batches += np.array_split(pairs, number) if number else []
        shape_of += [index] * number
    sizes = np.array([len(batch) for batch in batches], np.int64)
    return np.concatenate([np.zeros(0, np.int64), *batches]), sizes, np.array(shape_of, np.int64)


class _Calls:
    """Calls of NumPy functions from input pipelines that do not block the end of the program.

    A pipeline reads ahead in threads. If such a thread calls a Python function when the interpreter ends, it waits for
    ever, and so does the end of the pipeline's iterator. Therefore no call starts any more when the program ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._last = 0.0  # the time of the last call
        self._is_ended = False

    def run(self, function: Callable[..., Any], *arguments: np.ndarray) -> Any:  # noqa: ANN401
        """Returns what a function returns. Raises RuntimeError if the program ends."""
        with self._lock:
            self._last = time.monotonic()
            if self._is_ended:
                raise RuntimeError("the program ends")
            self._running += 1
        try:
            return function(*arguments)
        finally:
            with self._lock:
                self._running -= 1
                self._last = time.monotonic()

    def end(self) -> None:
        """Lets further calls fail, and waits until there are none."""
        self._is_ended = True
        while self._running or time.monotonic() - self._last < _QUIET_SECONDS:
            time.sleep(_QUIET_SECONDS / 5)


_calls = _Calls()
atexit.register(_calls.end)


def call_numpy(function: Callable[..., Any], arguments: Sequence[Array], dtypes: Sequence[tf.DType]) -> list[tf.Tensor]:
    """Returns the tensors that a function of NumPy arrays returns, one for each type. For input pipelines.

    The function must not depend on anything but its arguments.
    """
    call = functools.partial(_calls.run, function)
    return tf.nest.flatten(tf.numpy_function(call, list(arguments), list(dtypes), stateful=False))
