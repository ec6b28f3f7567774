"""Gradient accumulation: splits a global batch over devices, and each share into micro-batches that fit in memory.

`TrainStep` runs the micro-batches and sums their gradients. The update does not depend on the number of devices and
micro-batches, up to rounding, because
- every token's loss is divided by "tokens", the number of target tokens in the global batch, and gradients are summed
  over micro-batches and devices;
- padding rows are empty and have no loss;
- dropout depends on a row's index in the global batch, which starts at "first_row", see `DropoutSeeds`.

A CPU computes two micro-batches at the same time, each in its own thread, because most operations in a step are too
small to be divided among cores.
"""

import dataclasses
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeAlias, TypeVar

import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.cost import choose_max_tokens
from t2t_lite.data.batching import HostShare
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.problem import SIDES
from t2t_lite.training.devices import all_gather, num_parallel_micro_batches
from t2t_lite.training.options import TrainOptions

# A batch from `distribute_batches`: on each replica, "inputs" and "targets" and some scalars.
DistributedBatch: TypeAlias = dict[str, tf.Tensor | tf.distribute.DistributedValues]
# One replica's part of such a batch, and the specs of its tensors.
ReplicaBatch: TypeAlias = dict[str, tf.Tensor]
ElementSpec: TypeAlias = dict[str, tf.TypeSpec]
OnReplica = TypeVar("OnReplica")  # one or several tensors from each replica


@dataclasses.dataclass(frozen=True)
class MicroBatches:
    """The limit on the size of micro-batches, and the number computed at once."""

    # maximum positions (rows times the length of the longer side, padding included) that a device holds at once; a
    # longer pair gets its own micro-batch. None: a share is split only for parallel computation
    max_tokens: int | None = None
    # if above 0, both sides are padded to one of a few lengths, and all micro-batches of a length have the same number
    # of rows, such that each has about this many positions. There are then few enough shapes to compile each of them
    static_tokens: int = 0
    # micro-batches that a device computes at the same time and that share `max_tokens`; 1 with `static_tokens`
    num_parallel: int = 1

    def shape(
        self, rows: int | tf.Tensor, inputs_length: int | tf.Tensor, targets_length: int | tf.Tensor
    ) -> tuple[int | tf.Tensor, int | tf.Tensor, int | tf.Tensor, int | tf.Tensor]:
        """Returns (number of micro-batches, rows in each, inputs length, targets length) for a share of `rows` rows."""
        longest = tf.maximum(inputs_length, targets_length)
        if self.static_tokens:
            longest = inputs_length = targets_length = bucket_length(longest)
            size = tf.maximum(min(self.static_tokens, self.max_tokens or self.static_tokens) // longest, 1)
            return -(-rows // size), size, inputs_length, targets_length
        if self.max_tokens is None and self.num_parallel == 1:
            return 1, rows, inputs_length, targets_length
        number = 1
        if self.max_tokens is not None:
            max_rows = tf.maximum(self.max_tokens // self.num_parallel // longest, 1)
            number = tf.maximum(-(-rows // max_rows), 1)
        number = -(-number // self.num_parallel) * self.num_parallel  # so that no micro-batch runs alone
        size = tf.maximum(-(-rows // number), 1)
        return tf.maximum(-(-rows // size), 1), size, inputs_length, targets_length

    def largest_shape(self, length: int) -> tuple[int, int]:
        """Returns (rows, length) of the largest micro-batch if sides have up to `length` tokens. Needs `max_tokens`."""
        if not self.static_tokens:
            return max((self.max_tokens or 0) // self.num_parallel // length, 1), length
        _, rows, length, _ = (int(size) for size in self.shape(1, length, length))
        return rows, length


def bucket_length(length: int | tf.Tensor) -> tf.Tensor:
    """Returns the smallest of 8, 16, 24, 32, 48, 64, 96, ... (8 or 24 times a power of 2) that is at least `length`."""
    power = tf.cast(8 * 2 ** tf.range(24), tf.int32)
    lengths = tf.sort(tf.concat([power, 3 * power[:22]], 0))
    return tf.gather(lengths, tf.searchsorted(lengths, tf.reshape(length, [1])))[0]


@tf.autograph.experimental.do_not_convert  # conversion takes time and has no effect here
def distribute_batches(
    strategy: tf.distribute.Strategy,
    global_batches: tf.data.Dataset | Callable[[HostShare], tf.data.Dataset],
    micro_batches: MicroBatches = MicroBatches(),
) -> tf.distribute.DistributedDataset:
    """Gives every replica an equal share of each global batch, split into micro-batches.

    Shares and micro-batches are contiguous rows. The micro-batch limit does not change which replica gets a row. Global
    batches are dicts of "inputs" and "targets", int32 [rows, length], and any scalars. They are a dataset, which every
    worker produces as a whole, or a function that returns the dataset of a host's rows, as in training; the pipeline
    then adds "rows" and "tokens", see `pipeline.batches`.

    The result has "inputs" and "targets" as int32 [micro-batches, rows, length], padded with empty rows, which have no
    loss; "first_row", int64: the index of a share's first row in the global batch; and "tokens", float32: the number of
    real target tokens in the whole global batch.
    """
    replicas = strategy.num_replicas_in_sync

    def dataset_of_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
        mine = replicas // context.num_input_pipelines  # replicas of this host
        first = mine * context.input_pipeline_id
        host = HostShare(replicas, first, mine)
        data = global_batches(host) if callable(global_batches) else global_batches

        def split(batch: dict[str, tf.Tensor]) -> tf.data.Dataset:
            if "rows" not in batch:  # a whole batch
                rows = tf.shape(batch["targets"])[0]
                of_device = host.rows_per_device(rows)
                own = slice(host.first * of_device, (host.first + host.number) * of_device)
                tokens = tf.math.count_nonzero(batch["targets"], dtype=tf.float32)
                batch = batch | {name: batch[name][own] for name in SIDES} | {"rows": rows, "tokens": tokens}
            share = host.rows_per_device(tf.cast(batch.pop("rows"), tf.int32))
            lengths = (tf.shape(batch[name])[1] for name in ("inputs", "targets"))
            number, size, *lengths = micro_batches.shape(share, *lengths)
            shares = dict(batch)
            for name, length in zip(("inputs", "targets"), lengths):
                rows, its_length = tf.unstack(tf.shape(batch[name]))
                missing = [[0, mine * share - rows], [0, length - its_length]]
                places = tf.pad(batch[name], missing)
                places = tf.reshape(places, [mine, share, length])
                missing = [[0, 0], [0, number * size - share], [0, 0]]
                places = tf.pad(places, missing)
                shares[name] = tf.reshape(places, [mine, number, size, length])
            for name in shares.keys() - {"inputs", "targets"}:
                shares[name] = tf.repeat(shares[name], mine)
            shares["first_row"] = tf.range(first, first + mine, dtype=tf.int64) * tf.cast(share, tf.int64)
            return tf.data.Dataset.from_tensor_slices(shares)  # pyright: ignore[reportArgumentType]  # replicas of one host take elements in turn

        shares = data.flat_map(split)
        if data.cardinality() == tf.data.INFINITE_CARDINALITY:
            # Otherwise, devices would have to agree before each batch on whether there is one.
            shares = shares.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
        return shares.prefetch(2 * mine)

    return strategy.distribute_datasets_from_function(dataset_of_host)


class OnMicroBatches(Generic[OnReplica]):
    """Runs a function on every replica for each micro-batch: on_micro_batches(distributed batch) -> results in order.

    The function receives (a replica's batch, index of the micro-batch) and becomes one graph for all micro-batches.
    `element_spec` is that of the dataset from `distribute_batches`. `num_parallel` micro-batches run at the same time,
    each in its own thread; this needs a strategy with one replica.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        on_replica: Callable[[ReplicaBatch, tf.Tensor], OnReplica],
        element_spec: ElementSpec,
        num_parallel: int = 1,
    ) -> None:
        def run(batch: DistributedBatch, number: tf.Tensor) -> OnReplica:
            return strategy.run(on_replica, args=(batch, number))

        signature = batch_signature(strategy, element_spec, tf.TensorSpec([], tf.int32))
        self._graph = tf.function(run, input_signature=signature, autograph=False)
        self._threads = ThreadPoolExecutor(num_parallel) if num_parallel > 1 else None

    def __call__(self, batch: DistributedBatch) -> Iterable[OnReplica]:
        for_each = self._threads.map if self._threads else map
        return for_each(lambda number: self._graph(batch, tf.constant(number)), range(num_micro_batches(batch)))


def batch_signature(strategy: tf.distribute.Strategy, *specs: object) -> list | None:
    """Returns the signature of a graph for a batch; None on a TPU, which gets one graph for each static shape."""
    return None if isinstance(strategy, tf.distribute.TPUStrategy) else list(specs)


def num_micro_batches(batch: DistributedBatch) -> int:
    return len(first_replica(batch["targets"]))


def first_replica(value: tf.Tensor | tf.distribute.DistributedValues) -> tf.Tensor:
    """Returns the first replica's part of a distributed value; use it for values that are equal on all replicas."""
    return value.values[0] if isinstance(value, tf.distribute.DistributedValues) else value


def bound_micro_batches(
    hparams: HParams,
    manifest: Manifest,
    inputs_size: int,
    targets_size: int,
    strategy: tf.distribute.Strategy,
    options: TrainOptions,
) -> MicroBatches:
    """Returns the micro-batch limit: the requested number of positions, or the number that fits in the free memory.

    The limit is at most 1.25 times a device's share of a batch (2.5 times with batch_by=shapes), because few batches
    have more padding, and every run first tests the largest micro-batch. All workers use the smallest of their limits.
    A CPU computes several micro-batches at once, unless the longest sentence does not fit into memory several times.
    """
    share = -(-hparams.batch_tokens // strategy.num_replicas_in_sync)
    # With batch_by=shapes, the two sides of a batch may differ more in length, because each shape sets both lengths.
    largest = (10 if hparams.batch_by == "shapes" else 5) * share // 4 + 1
    most, length = options.max_tokens_per_replica, manifest.longest("train", hparams.max_length)
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    is_static = is_tpu or (bool(options.xla_compile) and hparams.batch_by != "shapes")
    num_parallel = 1 if is_tpu or options.xla_compile else num_parallel_micro_batches(strategy)
    if most is None and options.free_bytes is not None:
        most = choose_max_tokens(hparams, targets_size, inputs_size, options.free_bytes, length, num_parallel)
    most = int(all_gather(strategy, min(most or largest, largest)).min())
    if most < num_parallel * length:
        num_parallel = 1
    # Half a share per micro-batch limits the padding in the last one.
    return MicroBatches(most, static_tokens=-(-share // 2) if is_static else 0, num_parallel=num_parallel)
