"""The input pipeline: shards -> global batches of pairs of similar length, deterministic for a given (seed, epoch)."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.data.batch_shapes import learn_batch_shapes
from t2t_lite.data.batching import cut_into_batches, cut_into_shapes, fold_in
from t2t_lite.data.bpe_dropout import NewTokens, make_new_tokens
from t2t_lite.data.manifest import Manifest, read_manifest
from t2t_lite.data.pair_concatenation import PairConcatenation
from t2t_lite.data.problem import SIDES, Problem
from t2t_lite.errors import UserError

# Batches are formed within windows of about this many pairs; a batch never spans two windows.
WINDOW = 2**17
_WINDOWS_AT_ONCE = 2  # number of windows that are cut in parallel; each of them takes about 100 MB
# Number of pairs, in shard order, whose lengths determine the batch shapes.
_SAMPLE = 2**15


@contextlib.contextmanager
def reading_shards(name: str, data_dir: Path) -> Iterator[None]:
    """Converts a TensorFlow error about an unreadable record, raised inside the block, into a UserError."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        if "record" not in error.message and "Example" not in error.message:
            raise
        damaged = _damaged_shards(name, Path(data_dir))
        which = " and ".join(map(str, damaged)) or f"a shard of '{name}' in {data_dir}"
        raise UserError(
            f"{which} is damaged; remove it and run t2t-lite-datagen again with the same settings as before"
        ) from error


def _damaged_shards(name: str, data_dir: Path) -> list[Path]:
    """Returns the shards that cannot be read completely."""
    damaged = []
    for path in sorted(data_dir.glob(f"{name}-*-of-*")):
        try:
            for records in tf.data.TFRecordDataset(str(path)).batch(1024):
                tf.io.parse_example(records, {"inputs": tf.io.RaggedFeature(tf.int64)})
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError):
            damaged.append(path)
    return damaged


def window_size(examples: int) -> int:
    """Returns the number of pairs per window. Windows have about the same size, so that none has few batches."""
    return math.ceil(examples / max(1, round(examples / WINDOW)))


def has_pair(problem: Problem, data_dir: Path, max_length: int) -> bool:
    """Returns whether any training pair has at most `max_length` tokens on both sides. Reads the shards."""
    dataset = batches(problem, data_dir, "train", batch_tokens=1, max_length=max_length)
    return next(iter(dataset), None) is not None


@tf.autograph.experimental.do_not_convert  # conversion takes a second and has no effect here
def batches(
    problem: Problem,
    data_dir: Path,
    split: str,
    *,
    batch_tokens: int,
    batch_by: str = "targets",
    max_length: int | None = None,
    seed: int | None = None,
    epoch: int | tf.Tensor = 0,
    shapes: np.ndarray | None = None,
    new_tokens: NewTokens | None = None,
    concatenation: PairConcatenation | None = None,
) -> tf.data.Dataset:
    """Returns one epoch of global batches {"inputs", "targets"}: int32 [rows, length], padded with 0.

    Each batch has about `batch_tokens` target tokens, excluding padding. Every window of about WINDOW pairs is divided
    evenly, so there is no short last batch (but with `shapes`, the longest pairs may form one). Only pairs longer than
    `max_length` are dropped.

    Args:
      problem: the problem; a reversed problem swaps the sides.
      data_dir: the folder with the shards.
      split: "train", "dev" or "test".
      batch_tokens: target tokens per batch, including end symbols, excluding padding.
      batch_by: the lengths by which pairs are grouped, "both" or "targets", see `cut_into_batches`.
      max_length: maximum number of tokens on either side of a pair; longer pairs are dropped. None keeps all.
      seed: determines the order, together with `epoch`; None keeps the order by length (for evaluation).
      epoch: counted from 0.
      shapes: the possible batch shapes, see `learn_batch_shapes`. Batches are padded with empty rows, and `batch_by`
        is ignored. Needs a seed.
      new_tokens: retokenizes texts, as a function of seed, epoch and window. Needs a seed.
      concatenation: appends other pairs to some pairs, after `new_tokens`. Needs a seed.
    """
    manifest = read_manifest(data_dir, problem)
    window = WINDOW if manifest is None else max(1, window_size(manifest.splits[split]["examples"]))
    shards = _shards(problem, data_dir, split, manifest)
    files = tf.data.Dataset.from_tensor_slices(shards)
    if seed is not None:
        graph = tf.compat.v1.get_default_graph()
        if not tf.executing_eagerly() and graph.seed == 0:
            graph.seed = None  # TensorFlow compares both seeds with 0 in Python, which fails for our tensor
        files = files.shuffle(len(shards), seed=_mix(seed, epoch), reshuffle_each_iteration=False)
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=4, block_length=64)
    order_seed = None if seed is None else tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])

    def cut(index: tf.Tensor, window: tf.Tensor) -> tuple[Array, Array, Array, tf.Tensor]:
        """Returns the inputs and targets of a window, the pairs of each batch, and the shape of each batch."""
        inputs, targets = _parse(window, problem.is_reversed, max_length)
        window_seed = None if order_seed is None else fold_in(order_seed, index)
        if new_tokens is not None and order_seed is not None:
            inputs, targets = new_tokens.of_window(inputs, targets, order_seed, index)
        if concatenation is not None and window_seed is not None:
            inputs, targets = concatenation(inputs, targets, fold_in(window_seed, 3))
        lengths = inputs.row_lengths(), targets.row_lengths()
        if shapes is not None and window_seed is not None:
            return inputs, targets, *cut_into_shapes(*lengths, window_seed, shapes)
        rows = cut_into_batches(*lengths, batch_tokens, window_seed, batch_by)
        return inputs, targets, rows, tf.zeros([rows.nrows(), 0], tf.int64)

    def gathered(inputs: Array, targets: Array, rows: Array, shape: tf.Tensor) -> tf.data.Dataset:
        def batch(row: tf.Tensor, shape: tf.Tensor) -> dict[str, tf.Tensor]:
            pairs = tf.gather(inputs, row), tf.gather(targets, row)
            padded = [None, None] if shapes is None else [tf.stack([shape[2], shape[side]]) for side in range(2)]
            return {name: pair.to_tensor(shape=to) for name, pair, to in zip(SIDES, pairs, padded)}

        return tf.data.Dataset.from_tensor_slices((rows, shape)).map(batch)

    # Windows are cut while batches of the window before them are used.
    windows = records.batch(window).enumerate().map(cut, num_parallel_calls=_WINDOWS_AT_ONCE).prefetch(1)
    return windows.flat_map(gathered).prefetch(tf.data.AUTOTUNE)  # pyright: ignore[reportArgumentType]


def _shards(problem: Problem, data_dir: Path, split: str, manifest: Manifest | None) -> list[str]:
    names = [problem.shard_filename(split, i) for i in range(problem.shards_of(split))]
    if manifest is not None:
        names = sorted(manifest.splits[split]["shards"])  # --num_shards may have changed the number of shards
    return [str(Path(data_dir) / name) for name in names]


def batch_shapes(problem: Problem, data_dir: Path, *, batch_tokens: int, max_length: int) -> np.ndarray:
    """Returns the shapes of training batches, see `learn_batch_shapes`. They do not depend on seed or devices."""
    manifest = read_manifest(data_dir, problem)
    records = tf.data.TFRecordDataset(_shards(problem, data_dir, "train", manifest)).batch(_SAMPLE)
    sides = _parse(next(iter(records)), problem.is_reversed, max_length)
    lengths = np.stack([side.row_lengths().numpy() for side in sides])
    pairs = lengths.shape[1]
    window = pairs if manifest is None else window_size(manifest.splits["train"]["examples"])
    batches = round(window * lengths[1].sum() / max(pairs, 1) / batch_tokens)
    return learn_batch_shapes(lengths, batch_tokens, _longest(manifest, max_length), batches)


def _longest(manifest: Manifest | None, max_length: int) -> int:
    """Returns the maximum number of tokens on a side of a training pair."""
    return max_length if manifest is None else manifest.longest("train", max_length)


@tf.autograph.experimental.do_not_convert
def epochs(
    problem: Problem,
    data_dir: Path,
    *,
    batch_tokens: int,
    batch_by: str,
    max_length: int,
    seed: int,
    first_epoch: int = 0,
    skip: int = 0,
    bpe_dropout: float = 0.0,
    pair_concatenation: float = 0.0,
) -> tf.data.Dataset:
    """Returns endless batches of the training split, epoch after epoch.

    Args:
      problem, data_dir, batch_tokens, batch_by, max_length, seed: see `batches`.
      first_epoch: the epoch to start with.
      skip: number of batches in the first epoch to skip, because they were already used.
      bpe_dropout: the probability of leaving out a merge of byte-pair tokens, see `BpeDropout`.
      pair_concatenation: the probability of appending another pair to each pair, see `PairConcatenation`.

    Returns:
      a dataset like the one from `batches`, with additional int64 scalars "epoch" and "position" in each batch.
    """
    shapes = None
    if batch_by == "shapes":
        shapes = batch_shapes(problem, data_dir, batch_tokens=batch_tokens, max_length=max_length)

    manifest = read_manifest(data_dir, problem)
    new_tokens = None
    if bpe_dropout:
        new_tokens = make_new_tokens(problem, data_dir, manifest, bpe_dropout, max_length)

    concatenation = None
    if pair_concatenation:
        concatenation = PairConcatenation(pair_concatenation, _longest(manifest, max_length))

    def numbered(epoch: tf.Tensor, skipped: tf.Tensor) -> tf.data.Dataset:
        epoch_batches = batches(
            problem,
            data_dir,
            "train",
            batch_tokens=batch_tokens,
            batch_by=batch_by,
            max_length=max_length,
            seed=seed,
            epoch=epoch,
            shapes=shapes,
            new_tokens=new_tokens,
            concatenation=concatenation,
        )
        return (
            epoch_batches.enumerate()
            .skip(skipped)
            .map(lambda position, batch: batch | {"epoch": epoch, "position": position})
        )

    def left(epoch: tf.Tensor) -> tf.data.Dataset:
        return numbered(epoch, tf.where(epoch == first_epoch, tf.constant(skip, tf.int64), 0))

    without_end = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return tf.data.Dataset.range(first_epoch, 2**40).flat_map(left).apply(without_end).prefetch(tf.data.AUTOTUNE)


def _parse(window: tf.Tensor, is_reversed: bool, max_length: int | None) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Parses records [pairs] into two ragged tensors, int32 [pairs, (length)], without pairs that are too long."""
    features = {name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for name in ("inputs", "targets")}
    parsed: dict[str, Any] = tf.io.parse_example(window, features)
    inputs, targets = (tf.cast(parsed[name], tf.int32) for name in ("inputs", "targets"))
    if max_length is not None:
        kept = tf.maximum(inputs.row_lengths(), targets.row_lengths()) <= max_length
        inputs, targets = tf.ragged.boolean_mask(inputs, kept), tf.ragged.boolean_mask(targets, kept)
    return (targets, inputs) if is_reversed else (inputs, targets)


def _mix(seed: int, epoch: Array) -> Array:
    """Combines seed and epoch into one integer, for interfaces that take a single seed."""
    return (seed * 1_000_003 + epoch) % 2**31
