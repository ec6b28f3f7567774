"""Windows: consecutive pairs of an epoch, within which batches are formed. Batches never span two windows."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.data.batching import HostShare, cut_into_batches, cut_into_shapes, fold_in
from t2t_lite.data.numpy_calls import call_numpy
from t2t_lite.data.record_index import BLOCK, CYCLE, RecordIndex

# Windows have about this many pairs.
WINDOW = 2**17
_AT_ONCE = 2  # number of windows that are cut in parallel; each of them takes about 100 MB

# (inputs, targets, seed of the epoch, window) -> changed inputs and targets, ragged int32 [pairs, (length)].
Change: TypeAlias = Callable[[Array, Array, tf.Tensor, tf.Tensor], tuple[Array, Array]]


def window_size(examples: int) -> int:
    """Returns the number of pairs per window. Windows have about the same size, so that none has few batches."""
    return max(1, math.ceil(examples / max(1, round(examples / WINDOW))))


@dataclasses.dataclass(frozen=True)
class Cutting:
    batch_tokens: int  # about the number of target tokens in a batch
    batch_by: str  # "both" or "targets", see `cut_into_batches`; not used with `shapes`
    shapes: np.ndarray | None  # the possible shapes of batches, see `cut_into_shapes`
    host: HostShare | None = None  # the host whose rows are wanted; None: all rows

    def __call__(
        self, inputs_lengths: tf.Tensor, targets_lengths: tf.Tensor, seed: tf.Tensor | None
    ) -> tuple[Array, tf.Tensor]:
        """Returns the host's pairs, int64 [batches, (rows)], and the size of each batch, int64 [batches, 4].

        A size is inputs length, targets length, rows and target tokens. The lengths are int64 [pairs]; the seed is of
        the window, int64 [2].
        """
        lengths = inputs_lengths, targets_lengths
        if self.shapes is not None and seed is not None:
            rows, shapes = cut_into_shapes(*lengths, seed, self.shapes)
        else:
            rows = cut_into_batches(*lengths, self.batch_tokens, seed, self.batch_by)
            longest = [tf.reduce_max(tf.gather(side, rows), axis=1) for side in lengths]
            shapes = tf.stack([*longest, rows.row_lengths()], axis=1)
        tokens = tf.reduce_sum(tf.gather(targets_lengths, rows), axis=1)
        sizes = tf.concat([shapes, tokens[:, tf.newaxis]], axis=1)
        return rows if self.host is None else self.host.select(rows, sizes[:, 2]), sizes


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of one epoch.

    `read` and `read_own` yield for each window: inputs and targets, ragged int32 [pairs, (length)]; the pairs of each
    batch, ragged int64 [batches, (rows)]; and the size of each batch, see `Cutting`.
    """

    shards: Sequence[str]
    size: int  # pairs in a window
    is_reversed: bool  # whether inputs and targets are swapped
    max_length: int | None  # pairs with more tokens on a side are dropped; None: no pair
    cutting: Cutting
    seed: int | None  # determines the order, together with the epoch; None: the order of the shards
    epoch: Array
    first: Array = 0  # the window to begin with

    def read(self, change: Change | None = None) -> tf.data.Dataset:
        """Reads all pairs. `change` changes their texts; it needs a seed."""

        def cut(number: tf.Tensor, records: tf.Tensor) -> tuple[Array, Array, Array, tf.Tensor]:
            inputs, targets = parse_records(records, self.is_reversed, self.max_length)
            if change is not None and self._order_seed is not None:
                inputs, targets = change(inputs, targets, self._order_seed, number)
            return inputs, targets, *self._cut(number, inputs.row_lengths(), targets.row_lengths())

        files = self._shuffled(tf.data.Dataset.from_tensor_slices(self.shards))
        records = files.interleave(tf.data.TFRecordDataset, cycle_length=CYCLE, block_length=BLOCK)
        windows = records.skip(self.first * self.size).batch(self.size).enumerate(start=self.first)
        return windows.map(cut, num_parallel_calls=_AT_ONCE)

    def read_own(self, index: RecordIndex) -> tf.data.Dataset:
        """Reads only the host's pairs. The index must be of the same shards."""

        def cut(number: tf.Tensor, records: tf.Tensor, lengths: tf.Tensor) -> tuple[Array, Array, Array, tf.Tensor]:
            rows, sizes = self._cut(number, lengths[0], lengths[1])
            wanted = tf.gather(records, rows.flat_values)
            own: Any = tf.ensure_shape(*call_numpy(index.read, [wanted], [tf.string]), [None])
            inputs, targets = parse_records(own, self.is_reversed, None)
            places = tf.range(tf.size(wanted, tf.int64))
            rows = tf.RaggedTensor.from_row_splits(places, rows.row_splits)  # pyright: ignore[reportAttributeAccessIssue]
            return inputs, targets, rows, sizes

        return self._lengths(index).map(cut, num_parallel_calls=_AT_ONCE)

    def numbers_of_batches(self, index: RecordIndex) -> tf.data.Dataset:
        """Yields the number of batches in each window, int64 []. Reads only the index."""

        def number_of_batches(number: tf.Tensor, records: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
            del records
            return self._cut(number, lengths[0], lengths[1])[0].nrows()

        return self._lengths(index).map(number_of_batches, num_parallel_calls=_AT_ONCE)

    @property
    def _order_seed(self) -> tf.Tensor | None:
        if self.seed is None:
            return None
        return tf.stack([tf.constant(self.seed, tf.int64), tf.cast(self.epoch, tf.int64)])

    def _cut(self, number: tf.Tensor, inputs_lengths: Array, targets_lengths: Array) -> tuple[Array, tf.Tensor]:
        order_seed = self._order_seed
        seed = None if order_seed is None else fold_in(order_seed, number)
        return self.cutting(inputs_lengths, targets_lengths, seed)

    def _shuffled(self, files: tf.data.Dataset) -> tf.data.Dataset:
        if self.seed is None:
            return files
        graph = tf.compat.v1.get_default_graph()
        if not tf.executing_eagerly() and graph.seed == 0:
            graph.seed = None  # TensorFlow compares both seeds with 0 in Python, which fails for our tensor
        mixed = (self.seed * 1_000_003 + self.epoch) % 2**31  # one integer, because the interface takes a single seed
        return files.shuffle(len(self.shards), seed=mixed, reshuffle_each_iteration=False)

    def _lengths(self, index: RecordIndex) -> tf.data.Dataset:
        """Yields (window, records int64 [pairs], lengths of inputs and targets int64 [2, pairs]) from the index."""

        def of_window(blocks: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            records = index.window(blocks, int(number) * self.size, self.size)
            lengths = index.lengths(records)[:: -1 if self.is_reversed else 1]
            kept = np.ones(len(records), bool) if self.max_length is None else lengths.max(0) <= self.max_length
            return records[kept], lengths[:, kept]

        def windows(order: tf.Tensor) -> tf.data.Dataset:
            (blocks,) = call_numpy(index.blocks, [order], [tf.int64])

            def lengths(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
                records, sides = call_numpy(of_window, [blocks, number], [tf.int64, tf.int64])
                return number, tf.ensure_shape(records, [None]), tf.ensure_shape(sides, [2, None])

            return tf.data.Dataset.range(self.first, math.ceil(len(index) / self.size)).map(lengths)

        shards = len(self.shards)
        return self._shuffled(tf.data.Dataset.range(shards)).batch(shards).flat_map(windows)


def parse_records(
    records: tf.Tensor, is_reversed: bool, max_length: int | None
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Parses records [pairs] into two ragged tensors, int32 [pairs, (length)], without pairs that are too long."""
    features = {name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for name in ("inputs", "targets")}
    parsed: dict[str, Any] = tf.io.parse_example(records, features)
    inputs, targets = (tf.cast(parsed[name], tf.int32) for name in ("inputs", "targets"))
    if max_length is not None:
        is_short = tf.maximum(inputs.row_lengths(), targets.row_lengths()) <= max_length
        kept = tf.where(is_short)[:, 0]
        # Not `tf.ragged.boolean_mask`, which would build a matrix as wide as the longest text.
        inputs, targets = tf.gather(inputs, kept), tf.gather(targets, kept)
    return (targets, inputs) if is_reversed else (inputs, targets)
