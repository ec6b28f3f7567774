"""The input pipeline: shards -> global batches of pairs of similar length, deterministic for a given (seed, epoch)."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.data.batching import HostShare, call_numpy, cut_into_batches, cut_into_shapes, fold_in, learn_batch_shapes
from t2t_lite.data.bpe_dropout import make_new_tokens
from t2t_lite.data.manifest import FILENAME, Manifest, manifest_of_file
from t2t_lite.data.problem import SIDES, Problem
from t2t_lite.errors import UserError
from t2t_lite.files import written_whole

# Number of pairs, in shard order, whose lengths determine the batch shapes.
_SAMPLE = 2**15
# Windows have about this many pairs.
WINDOW = 2**17
_CUT_AT_ONCE = 2  # number of windows that are cut in parallel; each of them takes about 100 MB
# (inputs, targets, seed of the epoch, window) -> changed inputs and targets, ragged int32 [pairs, (length)].
Change: TypeAlias = Callable[[Array, Array, tf.Tensor, tf.Tensor], tuple[Array, Array]]
# `end` is the position in the shard after the record, in bytes; the lengths are in tokens, with the end symbol, in the
# direction of the forward problem.
_ROW = np.dtype([("end", "<u8"), ("inputs", "<u4"), ("targets", "<u4")])
# A TFRecord consists of the data's length (8 bytes), a checksum (4), the data and a checksum (4).
_BEFORE, _AFTER = 12, 4
# The order in which the pipeline takes records from shards: blocks of so many records, from so many shards in turn.
CYCLE, BLOCK = 4, 64
_INDEXED_AT_ONCE = 2**16  # number of records to index at once


def index_path(data_dir: Path, manifest: Manifest) -> Path:
    return Path(data_dir) / f"{manifest.problem}-train.index.npy"


def write_index(data_dir: Path, manifest: Manifest) -> None:
    """Writes the index of the train split, unless it exists and fits the shards."""
    if read_index(data_dir, manifest) is not None:
        return

    def lengths(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns (bytes of the data, int64 [records]; tokens of inputs and targets, int64 [2, records])."""
        sides = parse_records(records, is_reversed=False, max_length=None)
        return tf.cast(tf.strings.length(records), tf.int64), tf.stack([side.row_lengths() for side in sides])

    split = manifest.splits["train"]
    shards = sorted(split["shards"])
    rows = np.zeros(len(shards) + split["examples"], _ROW)
    place = len(shards)
    for number, name in enumerate(shards):
        first, end = place, 0
        records = tf.data.TFRecordDataset(str(Path(data_dir) / name)).batch(_INDEXED_AT_ONCE)
        for sizes, sides in records.map(lengths).as_numpy_iterator():
            ends = end + np.cumsum(sizes + _BEFORE + _AFTER)
            part = rows[place : place + len(sizes)]
            part["end"], (part["inputs"], part["targets"]) = ends, sides
            place, end = place + len(sizes), int(ends[-1])
        rows["end"][number] = place - first
    with written_whole(index_path(data_dir, manifest)) as incomplete, incomplete.open("wb") as file:
        np.save(file, rows)


def read_index(data_dir: Path, manifest: Manifest) -> "RecordIndex | None":
    """Returns the index of the train split, or None if there is none or it does not fit the shards."""
    path = index_path(data_dir, manifest)
    if not path.exists():
        return None
    sizes = dict(sorted(manifest.splits["train"]["shards"].items()))
    try:
        rows = np.load(path, mmap_mode="r")
    except (ValueError, EOFError):  # an empty file is an EOFError
        return None
    if rows.dtype != _ROW or rows.shape != (len(sizes) + manifest.splits["train"]["examples"],):
        return None
    counts = rows["end"][: len(sizes)].astype(np.int64)
    index = RecordIndex(rows[len(sizes) :], [Path(data_dir) / name for name in sizes], counts)
    return index if index.shard_sizes() == list(sizes.values()) else None


class RecordIndex:
    """The records of the train split, by number: their lengths and places. Those of the first shard come first.

    With it, batches can be made before records are read: each host reads only the records of its own rows, and a
    resumed epoch skips batches without reading them. The index is a file beside the shards. It begins with a row for
    each shard, whose `end` is the shard's number of records. Then it has a row for each record, in the order of the
    shards' names.
    """

    def __init__(self, rows: np.ndarray, shards: list[Path], counts: np.ndarray) -> None:
        self._rows, self._shards, self._counts = rows, shards, counts
        self._starts = np.concatenate([[0], np.cumsum(counts)])  # the first record of each shard

    def shard_sizes(self) -> list[int]:
        if self._starts[-1] != len(self._rows):
            return []
        lasts = self._rows["end"][np.maximum(self._starts[1:] - 1, 0)] if len(self._rows) else 0
        return np.where(self._counts > 0, lasts, 0).tolist()

    def __len__(self) -> int:
        return len(self._rows)

    def blocks(self, shard_order: np.ndarray) -> np.ndarray:
        """Returns the order of the records in an epoch: int64 [blocks, 2], first record and number of each block.

        The order is that of `tf.data.Dataset.interleave` over the shards with `CYCLE` and `BLOCK`.
        """
        waiting = [(int(self._starts[shard]), int(self._starts[shard + 1])) for shard in shard_order[::-1]]
        opened: list[tuple[int, int] | None] = [None] * CYCLE
        blocks, turn = [], 0
        while waiting or any(opened):
            current = opened[turn]
            if current is None and waiting:
                opened[turn] = waiting.pop()
                continue
            if current is not None:
                start, end = current
                if number := min(BLOCK, end - start):
                    blocks.append((start, number))
                # A shard that ends with a block is closed in its next turn.
                opened[turn] = (start + number, end) if number == BLOCK else None
            turn = (turn + 1) % CYCLE
        return np.array(blocks, np.int64).reshape(-1, 2)

    def window(self, blocks: np.ndarray, start: int, size: int) -> np.ndarray:
        """Returns the records of an epoch from place `start`, at most `size`: int64 [records]."""
        ends = np.cumsum(blocks[:, 1])
        first, last = np.searchsorted(ends, [start, start + size], side="right")
        chosen = blocks[first : last + 1]
        numbers = np.repeat(chosen[:, 0] - (np.cumsum(chosen[:, 1]) - chosen[:, 1]), chosen[:, 1])
        records = numbers + np.arange(len(numbers))
        skipped = start - (ends[first - 1] if first else 0)
        return records[skipped : skipped + size]

    def lengths(self, records: np.ndarray) -> np.ndarray:
        """Returns the tokens of the forward inputs and targets of some records: int64 [2, records]."""
        rows = self._rows[records]
        return np.stack([rows["inputs"], rows["targets"]]).astype(np.int64)

    def read(self, records: np.ndarray) -> np.ndarray:
        """Returns some records, serialized: bytes objects [records]. They are read in the order of the files."""
        order = np.argsort(records)
        sorted_records = records[order]
        shards = np.searchsorted(self._starts, sorted_records, side="right") - 1
        ends = self._rows["end"][sorted_records].astype(np.int64)
        is_first = sorted_records == self._starts[shards]
        starts = np.where(is_first, 0, self._rows["end"][np.maximum(sorted_records - 1, 0)].astype(np.int64))
        found = np.empty(len(records), object)
        for place, shard, start, end in zip(order.tolist(), shards.tolist(), starts.tolist(), ends.tolist()):
            found[place] = self._content(shard)[start + _BEFORE : end - _AFTER].tobytes()
        return found

    @functools.lru_cache(maxsize=64)  # noqa: B019  as long as the index, which lives as long as the training
    def _content(self, shard: int) -> np.ndarray:
        return np.memmap(self._shards[shard], np.uint8, "r")


def _manifest(problem: Problem, data_dir: Path) -> Manifest:
    return manifest_of_file(Path(data_dir) / FILENAME.format(problem.data_name))


def window_size(examples: int) -> int:
    """Returns the number of pairs per window. Windows have about the same size, so that none has few batches."""
    return max(1, math.ceil(examples / max(1, round(examples / WINDOW))))


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of one epoch: consecutive pairs, within which batches are formed. No batch spans two windows.

    `read` and `read_own` yield for each window: inputs and targets, ragged int32 [pairs, (length)]; the pairs of each
    batch, ragged int64 [batches, (rows)]; and the size of each batch, int64 [batches, 4]: length of inputs, length of
    targets, rows and target tokens.
    """

    shards: Sequence[str]
    size: int  # pairs in a window
    is_reversed: bool  # whether inputs and targets are swapped
    max_length: int | None  # pairs with more tokens on a side are dropped; None: no pair
    batch_tokens: int  # about the number of target tokens in a batch
    batch_by: str  # "both" or "targets", see `cut_into_batches`; not used with `shapes`
    seed: int | None  # determines the order, together with the epoch; None: the order of the shards
    epoch: Array
    shapes: np.ndarray | None = None  # the possible shapes of batches, see `cut_into_shapes`; needs a seed
    host: HostShare | None = None  # the host whose rows are wanted; None: all rows
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
        return windows.map(cut, num_parallel_calls=_CUT_AT_ONCE)

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

        return self._lengths(index).map(cut, num_parallel_calls=_CUT_AT_ONCE)

    def numbers_of_batches(self, index: RecordIndex) -> tf.data.Dataset:
        """Yields the number of batches in each window, int64 []. Reads only the index."""

        def number_of_batches(number: tf.Tensor, records: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
            return self._cut(number, lengths[0], lengths[1])[0].nrows()

        return self._lengths(index).map(number_of_batches, num_parallel_calls=_CUT_AT_ONCE)

    @property
    def _order_seed(self) -> tf.Tensor | None:
        if self.seed is None:
            return None
        return tf.stack([tf.constant(self.seed, tf.int64), tf.cast(self.epoch, tf.int64)])

    def _cut(self, number: tf.Tensor, inputs_lengths: Array, targets_lengths: Array) -> tuple[Array, tf.Tensor]:
        """Returns the host's pairs of each batch and the size of each batch, from the lengths int64 [pairs]."""
        order_seed, lengths = self._order_seed, (inputs_lengths, targets_lengths)
        seed = None if order_seed is None else fold_in(order_seed, number)
        if self.shapes is not None and seed is not None:
            rows, shapes = cut_into_shapes(*lengths, seed, self.shapes)
        else:
            rows = cut_into_batches(*lengths, self.batch_tokens, seed, self.batch_by)
            longest = [tf.reduce_max(tf.gather(side, rows), axis=1) for side in lengths]
            shapes = tf.stack([*longest, rows.row_lengths()], axis=1)
        sizes = tf.concat([shapes, tf.reduce_sum(tf.gather(targets_lengths, rows), axis=1)[:, tf.newaxis]], axis=1)
        return rows if self.host is None else self.host.select(rows, sizes[:, 2]), sizes

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
        kept = tf.where(tf.maximum(inputs.row_lengths(), targets.row_lengths()) <= max_length)[:, 0]
        # Not `tf.ragged.boolean_mask`, which would build a matrix as wide as the longest text.
        inputs, targets = tf.gather(inputs, kept), tf.gather(targets, kept)
    return (targets, inputs) if is_reversed else (inputs, targets)


def concatenate_pairs(
    inputs: tf.RaggedTensor, targets: tf.RaggedTensor, seed: tf.Tensor, rate: float, longest: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Appends another pair to some pairs in a window, at random, so that a model also learns long texts.

    Each pair also keeps its own place in the epoch (Nguyen et al. 2021, arXiv 2105.01691). A pair stays alone if a side
    of the joined pair would have more than `longest` tokens. Takes and returns int32 [pairs, (length)] with end
    symbols; the seed is int64 [2].
    """
    sides = inputs, targets
    pairs = inputs.nrows()
    draws = tf.random.stateless_uniform([2, pairs], seed, dtype=tf.float64)
    others = tf.cast(draws[0] * tf.cast(pairs, tf.float64), tf.int64)
    appends = draws[1] < rate
    for side in sides:
        lengths = side.row_lengths()
        appends &= lengths + tf.gather(lengths, others) - 1 <= longest
    first, second = (_appended(side, others, appends) for side in sides)
    return first, second


def _appended(texts: tf.RaggedTensor, others: tf.Tensor, appends: tf.Tensor) -> tf.RaggedTensor:
    """Replaces the end symbol with another text from the window where `appends` is true."""
    other_texts = tf.gather(texts, others)
    without_end = _shortened(texts, texts.row_lengths() - tf.cast(appends, tf.int64))
    return tf.concat([without_end, _shortened(other_texts, tf.where(appends, other_texts.row_lengths(), 0))], axis=1)


def _shortened(texts: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    return tf.ragged.boolean_mask(texts, tf.ragged.range(texts.row_lengths()) < lengths[:, tf.newaxis])


def has_pair(problem: Problem, data_dir: Path, max_length: int) -> bool:
    """Returns whether any training pair has at most `max_length` tokens on both sides. Reads the shards."""
    return next(iter(batches(problem, data_dir, "train", batch_tokens=1, max_length=max_length)), None) is not None


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
) -> tf.data.Dataset:
    """Returns one epoch of global batches {"inputs", "targets"}: int32 [rows, length], padded with 0.

    Each batch has about `batch_tokens` target tokens, with end symbols but without padding. Every window of about
    WINDOW pairs is divided evenly, so there is no short last batch. Only pairs with a side longer than `max_length` are
    dropped. A reversed problem swaps the sides.

    Args:
      batch_by: the lengths by which pairs are grouped, "both" or "targets", see `cut_into_batches`.
      seed: determines the order, together with `epoch`; None keeps the order by length (for evaluation).
    """
    manifest = _manifest(problem, data_dir)
    windows = _windows(problem, data_dir, manifest, split, max_length, batch_tokens, batch_by, seed, epoch)
    # Windows are cut while batches of the window before them are used.
    batches_of_windows = windows.read().prefetch(1).flat_map(lambda *window: _gathered(*window, is_whole=True))
    return batches_of_windows.prefetch(tf.data.AUTOTUNE).with_options(_without_autotune())


def _gathered(inputs: Array, targets: Array, chosen: Array, sizes: tf.Tensor, is_whole: bool) -> tf.data.Dataset:
    """Yields the batches of a window, see `Windows` and `batches`. Whole batches include the rows that pad them."""

    def batch(row: tf.Tensor, size: tf.Tensor) -> dict[str, tf.Tensor]:
        *lengths, rows, tokens = tf.unstack(size, num=4)
        number = rows if is_whole else tf.shape(row, tf.int64)[0]
        padded = {
            name: tf.gather(texts, row).to_tensor(shape=tf.stack([number, length]))
            for name, texts, length in zip(SIDES, (inputs, targets), lengths)
        }
        return padded if is_whole else padded | {"rows": rows, "tokens": tf.cast(tokens, tf.float32)}

    return tf.data.Dataset.from_tensor_slices((chosen, sizes)).map(batch)


def _windows(problem: Problem, data_dir: Path, manifest: Manifest, split: str, *settings: Any) -> Windows:
    """Returns the windows of a split; `settings` are those of `Windows` from `max_length` on."""
    size = window_size(manifest.splits[split]["examples"])
    return Windows(_shards(data_dir, manifest, split), size, problem.is_reversed, *settings)


def _shards(data_dir: Path, manifest: Manifest, split: str) -> list[str]:
    return [str(Path(data_dir) / name) for name in sorted(manifest.splits[split]["shards"])]


def _shapes(problem: Problem, data_dir: Path, manifest: Manifest, batch_tokens: int, max_length: int) -> np.ndarray:
    """Returns the shapes of training batches, see `learn_batch_shapes`. They do not depend on seed or devices."""
    records = tf.data.TFRecordDataset(_shards(data_dir, manifest, "train")).batch(_SAMPLE)
    sides = parse_records(next(iter(records)), problem.is_reversed, max_length)
    lengths = np.stack([side.row_lengths().numpy() for side in sides])
    window = window_size(manifest.splits["train"]["examples"])
    batches = round(window * lengths[1].sum() / max(lengths.shape[1], 1) / batch_tokens)
    return learn_batch_shapes(lengths, batch_tokens, manifest.longest("train", max_length), batches)


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
      batch_by: as for `batches`; or "shapes": batches have the few shapes of `learn_batch_shapes`, with empty rows,
        and the longest pairs may form a short last one.
      skip: number of batches in the first epoch to skip, because they were already used.
      bpe_dropout: see `BpeDropout`.
      pair_concatenation: the share of the pairs to which another is appended, see `concatenate_pairs`.
      host: yields only the host's rows of each batch, and the scalars "rows" (int64) and "tokens" (float32, target
        tokens) of the whole batch. Reads only these rows if the data has an index and texts are not changed.
    """
    manifest = _manifest(problem, data_dir)
    windows = _windows(problem, data_dir, manifest, "train", max_length, batch_tokens, batch_by, seed, first_epoch)
    shapes = _shapes(problem, data_dir, manifest, batch_tokens, max_length) if batch_by == "shapes" else None
    windows = dataclasses.replace(windows, shapes=shapes, host=host)
    new_tokens = make_new_tokens(problem, data_dir, manifest, bpe_dropout, max_length) if bpe_dropout else None
    changes = new_tokens is not None or pair_concatenation > 0
    index = None if changes else read_index(data_dir, manifest)
    first_window, before = _whole_windows(windows, index, skip) if skip and index is not None else (0, 0)
    own_index = index if host is not None and host.number < host.devices else None

    def change(inputs: Array, targets: Array, seed: tf.Tensor, window: tf.Tensor) -> tuple[Array, Array]:
        if new_tokens is not None:
            inputs, targets = new_tokens.of_window(inputs, targets, seed, window)
        if pair_concatenation:
            of_window, longest = fold_in(fold_in(seed, window), 3), manifest.longest("train", max_length)
            inputs, targets = concatenate_pairs(inputs, targets, of_window, pair_concatenation, longest)
        return inputs, targets

    def of_first(epoch: tf.Tensor, number: int) -> tf.Tensor:
        return tf.where(epoch == first_epoch, tf.constant(number, tf.int64), 0)

    def with_position(position: tf.Tensor, window: tuple[Array, ...]) -> tuple[tf.Tensor, tuple[Array, ...]]:
        """Adds the position of a window's first batch in the epoch; returns (that of the next window's, the window)."""
        return position + tf.shape(window[-1], tf.int64)[0], (position, *window)

    def windows_of(epoch: tf.Tensor) -> tf.data.Dataset:
        of_epoch = dataclasses.replace(windows, epoch=epoch, first=of_first(epoch, first_window))
        read: Any = of_epoch.read(change if changes else None) if own_index is None else of_epoch.read_own(own_index)
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


@contextlib.contextmanager
def reading_shards(name: str, data_dir: Path) -> Iterator[None]:
    """Converts a TensorFlow error about an unreadable record, raised inside the block, into a UserError."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        if "record" not in error.message and "Example" not in error.message:
            raise
        damaged = []
        for path in sorted(Path(data_dir).glob(f"{name}-*-of-*")):
            try:
                for records in tf.data.TFRecordDataset(str(path)).batch(1024):
                    tf.io.parse_example(records, {"inputs": tf.io.RaggedFeature(tf.int64)})
            except (tf.errors.DataLossError, tf.errors.InvalidArgumentError):
                damaged.append(path)
        which = " and ".join(map(str, damaged)) or f"a shard of '{name}' in {data_dir}"
        raise UserError(
            f"{which} is damaged; remove it and run t2t-lite-datagen again with the same settings as before"
        ) from error
