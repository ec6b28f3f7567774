"""An index of the training records: their lengths and places, so that batches can be made before records are read.

With it, each host reads only the records of its own rows, and a resumed epoch skips batches without reading them. The
index is a file beside the shards. It begins with a row for each shard, whose `end` is the shard's number of records.
Then it has a row for each record, in the order of the shards' names.
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.data.manifest import Manifest
from t2t_lite.files import written_whole

# `end` is the position in the shard after the record, in bytes; the lengths are in tokens, with the end symbol, in the
# direction of the forward problem.
_ROW = np.dtype([("end", "<u8"), ("inputs", "<u4"), ("targets", "<u4")])
# A TFRecord consists of the data's length (8 bytes), a checksum (4), the data and a checksum (4).
_BEFORE, _AFTER = 12, 4
# The order in which the pipeline takes records from shards: blocks of so many records, from so many shards in turn.
CYCLE, BLOCK = 4, 64
_AT_ONCE = 2**16  # number of records to index at once


def index_path(data_dir: Path, manifest: Manifest) -> Path:
    return Path(data_dir) / f"{manifest.problem}-train.index.npy"


def write_index(data_dir: Path, manifest: Manifest) -> None:
    """Writes the index of the train split, unless it exists and fits the shards."""
    if read_index(data_dir, manifest) is not None:
        return
    split = manifest.splits["train"]
    shards = sorted(split["shards"])
    rows = np.zeros(len(shards) + split["examples"], _ROW)
    place = len(shards)
    for number, name in enumerate(shards):
        first, end = place, 0
        for sizes, lengths in _lengths_of_shard(Path(data_dir) / name):
            ends = end + np.cumsum(sizes + _BEFORE + _AFTER)
            part = rows[place : place + len(sizes)]
            part["end"], (part["inputs"], part["targets"]) = ends, lengths
            place, end = place + len(sizes), int(ends[-1])
        rows["end"][number] = place - first
    with written_whole(index_path(data_dir, manifest)) as incomplete, incomplete.open("wb") as file:
        np.save(file, rows)


def _lengths_of_shard(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields (bytes of the data, int64 [records]; tokens of inputs and targets, int64 [2, records])."""

    def lengths(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = {name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for name in ("inputs", "targets")}
        parsed: dict[str, Any] = tf.io.parse_example(records, features)
        sides = tf.stack([parsed[name].row_lengths() for name in ("inputs", "targets")])
        return tf.cast(tf.strings.length(records), tf.int64), sides

    for sizes, sides in tf.data.TFRecordDataset(str(path)).batch(_AT_ONCE).map(lengths):
        yield sizes.numpy(), sides.numpy()


def read_index(data_dir: Path, manifest: Manifest | None) -> "RecordIndex | None":
    """Returns the index of the train split, or None if there is none or it does not fit the shards."""
    if manifest is None or not (path := index_path(data_dir, manifest)).exists():
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
    """The records of the train split, by number; the records of the first shard come first."""

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
                number = min(BLOCK, end - start)
                if number:
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
