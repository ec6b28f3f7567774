"""The input pipeline: shards -> global batches of pairs of similar length, deterministic for a given (seed, epoch)."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.data.batch_shapes import learn_batch_shapes
from t2t_lite.data.batching import HostShare, fold_in
from t2t_lite.data.bpe_dropout import make_new_tokens
from t2t_lite.data.manifest import Manifest, read_manifest
from t2t_lite.data.pair_concatenation import PairConcatenation
from t2t_lite.data.problem import SIDES, Problem
from t2t_lite.data.record_index import RecordIndex, read_index
from t2t_lite.data.windows import WINDOW, Change, Cutting, Windows, parse_records, window_size
from t2t_lite.errors import UserError

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
    damaged = []
    for path in sorted(data_dir.glob(f"{name}-*-of-*")):
        try:
            for records in tf.data.TFRecordDataset(str(path)).batch(1024):
                tf.io.parse_example(records, {"inputs": tf.io.RaggedFeature(tf.int64)})
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError):
            damaged.append(path)
    return damaged


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
) -> tf.data.Dataset:
    """Returns one epoch of global batches {"inputs", "targets"}: int32 [rows, length], padded with 0.

    Each batch has about `batch_tokens` target tokens, with end symbols but without padding. Every window of about
    WINDOW pairs is divided evenly, so there is no short last batch (but with `shapes`, the longest pairs may form one).
    Only pairs with a side longer than `max_length` are dropped. A reversed problem swaps the sides.

    Args:
      batch_by: the lengths by which pairs are grouped, "both" or "targets", see `cut_into_batches`.
      seed: determines the order, together with `epoch`; None keeps the order by length (for evaluation).
      shapes: the possible batch shapes, see `learn_batch_shapes`. Batches are padded with empty rows, and `batch_by`
        is ignored. Needs a seed.
    """
    cutting = Cutting(batch_tokens, batch_by, shapes)
    windows = _windows(problem, data_dir, split, cutting, max_length, seed, epoch).read()
    # Windows are cut while batches of the window before them are used.
    batches_of_windows = windows.prefetch(1).flat_map(lambda *window: _gathered(*window, is_whole=True))
    return batches_of_windows.prefetch(tf.data.AUTOTUNE).with_options(_without_autotune())


def _windows(
    problem: Problem,
    data_dir: Path,
    split: str,
    cutting: Cutting,
    max_length: int | None,
    seed: int | None,
    epoch: int | tf.Tensor,
) -> Windows:
    manifest = read_manifest(data_dir, problem)
    shards = _shards(problem, data_dir, split, manifest)
    size = WINDOW if manifest is None else window_size(manifest.splits[split]["examples"])
    return Windows(shards, size, problem.is_reversed, max_length, cutting, seed, epoch)


def _gathered(inputs: Array, targets: Array, rows: Array, sizes: tf.Tensor, is_whole: bool) -> tf.data.Dataset:
    """Yields the batches of a window, see `Windows` and `batches`. Whole batches include the rows that pad them."""

    def batch(row: tf.Tensor, size: tf.Tensor) -> dict[str, tf.Tensor]:
        number = size[2] if is_whole else tf.shape(row, tf.int64)[0]
        padded = {
            name: tf.gather(texts, row).to_tensor(shape=tf.stack([number, size[side]]))
            for side, (name, texts) in enumerate(zip(SIDES, (inputs, targets)))
        }
        return padded if is_whole else padded | {"rows": size[2], "tokens": tf.cast(size[3], tf.float32)}

    return tf.data.Dataset.from_tensor_slices((rows, sizes)).map(batch)


def _shards(problem: Problem, data_dir: Path, split: str, manifest: Manifest | None) -> list[str]:
    names = [problem.shard_filename(split, i) for i in range(problem.shards_of(split))]
    if manifest is not None:
        names = sorted(manifest.splits[split]["shards"])  # --num_shards may have changed the number of shards
    return [str(Path(data_dir) / name) for name in names]


def batch_shapes(problem: Problem, data_dir: Path, *, batch_tokens: int, max_length: int) -> np.ndarray:
    """Returns the shapes of training batches, see `learn_batch_shapes`. They do not depend on seed or devices."""
    manifest = read_manifest(data_dir, problem)
    records = tf.data.TFRecordDataset(_shards(problem, data_dir, "train", manifest)).batch(_SAMPLE)
    sides = parse_records(next(iter(records)), problem.is_reversed, max_length)
    lengths = np.stack([side.row_lengths().numpy() for side in sides])
    pairs = lengths.shape[1]
    window = pairs if manifest is None else window_size(manifest.splits["train"]["examples"])
    batches = round(window * lengths[1].sum() / max(pairs, 1) / batch_tokens)
    return learn_batch_shapes(lengths, batch_tokens, _longest(manifest, max_length), batches)


def _longest(manifest: Manifest | None, max_length: int) -> int:
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
    host: HostShare | None = None,
) -> tf.data.Dataset:
    """Returns endless batches of the training split: those of `batches` with int64 scalars "epoch" and "position".

    Args:
      skip: number of batches in the first epoch to skip, because they were already used.
      bpe_dropout: see `BpeDropout`.
      pair_concatenation: see `PairConcatenation`.
      host: yields only the host's rows of each batch, and the scalars "rows" (int64) and "tokens" (float32, target
        tokens) of the whole batch. Reads only these rows if the data has an index and texts are not changed.
    """
    shapes = None
    if batch_by == "shapes":
        shapes = batch_shapes(problem, data_dir, batch_tokens=batch_tokens, max_length=max_length)
    cutting = Cutting(batch_tokens, batch_by, shapes, host)
    windows = _windows(problem, data_dir, "train", cutting, max_length, seed, first_epoch)
    change = _change(problem, data_dir, max_length, bpe_dropout, pair_concatenation)
    index = read_index(data_dir, read_manifest(data_dir, problem)) if change is None else None
    first_window, before = _whole_windows(windows, index, skip) if skip and index is not None else (0, 0)
    own_index = index if host is not None and host.number < host.devices else None

    def of_first(epoch: tf.Tensor, number: int) -> tf.Tensor:
        return tf.where(epoch == first_epoch, tf.constant(number, tf.int64), 0)

    def with_position(position: tf.Tensor, window: tuple[Array, ...]) -> tuple[tf.Tensor, tuple[Array, ...]]:
        """Adds the position of a window's first batch in the epoch; returns (that of the next window's, the window)."""
        return position + tf.shape(window[-1], tf.int64)[0], (position, *window)

    def windows_of(epoch: tf.Tensor) -> tf.data.Dataset:
        of_epoch = dataclasses.replace(windows, epoch=epoch, first=of_first(epoch, first_window))
        read: Any = of_epoch.read(change) if own_index is None else of_epoch.read_own(own_index)
        return read.scan(of_first(epoch, before), with_position).map(lambda *window: (epoch, *window))

    def batches_of(epoch: tf.Tensor, position: tf.Tensor, *window: Array) -> tf.data.Dataset:
        numbered = _gathered(*window, is_whole=host is None).enumerate(start=position)
        return numbered.map(lambda position, batch: batch | {"epoch": epoch, "position": position})

    # A window is cut while batches of the window before it are used, also of the last one in the epoch before.
    read: Any = tf.data.Dataset.range(first_epoch, 2**40).flat_map(windows_of).prefetch(1)
    endless = read.flat_map(batches_of).skip(skip - before)
    without_end = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return endless.apply(without_end).prefetch(tf.data.AUTOTUNE).with_options(_without_autotune())


def _without_autotune() -> tf.data.Options:
    """Returns options without TensorFlow's tuning thread.

    The end of an iterator waits for that thread, which may sleep for a minute. Nothing here needs it: it tunes the
    number of parallel calls, which is fixed.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


def _change(
    problem: Problem, data_dir: Path, max_length: int, bpe_dropout: float, pair_concatenation: float
) -> Change | None:
    manifest = read_manifest(data_dir, problem)
    new_tokens = make_new_tokens(problem, data_dir, manifest, bpe_dropout, max_length) if bpe_dropout else None
    concatenation = None
    if pair_concatenation:
        concatenation = PairConcatenation(pair_concatenation, _longest(manifest, max_length))
    if new_tokens is None and concatenation is None:
        return None

    def change(inputs: Array, targets: Array, seed: tf.Tensor, window: tf.Tensor) -> tuple[Array, Array]:
        if new_tokens is not None:
            inputs, targets = new_tokens.of_window(inputs, targets, seed, window)
        if concatenation is not None:
            inputs, targets = concatenation(inputs, targets, fold_in(fold_in(seed, window), 3))
        return inputs, targets

    return change


def _whole_windows(windows: Windows, index: RecordIndex, skip: int) -> tuple[int, int]:
    """Returns (the number of windows of which all batches are skipped, the number of these batches)."""

    def numbers_of_batches(epoch: tf.Tensor) -> tf.data.Dataset:
        return dataclasses.replace(windows, epoch=epoch).numbers_of_batches(index)

    # In a graph, as in `epochs`, because the order of the shards also depends on the graph's seed.
    numbers = tf.data.Dataset.from_tensors(tf.constant(windows.epoch, tf.int64)).flat_map(numbers_of_batches)
    number_of_windows, before = 0, 0
    for number in numbers.as_numpy_iterator():
        if before + number > skip:
            break
        number_of_windows, before = number_of_windows + 1, before + int(number)
    return number_of_windows, before
