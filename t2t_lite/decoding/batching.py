"""Which sentences are searched together."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from t2t_lite.data.vocab import PAD_ID


def by_length(rows: Sequence[int], lengths: Sequence[int], batch_size_of: Callable[[int], int]) -> Iterator[list[int]]:
    """Cuts rows into batches of similar lengths, the longest first.

    Args:
      rows: which rows.
      lengths: the length of every row.
      batch_size_of: how many rows of a length make a batch.
    """
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: -lengths[row]):
        if batch and len(batch) >= batch_size_of(lengths[batch[0]]):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def padded(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns sequences of ids as int32 [batch, length], padded."""
    ids = np.full([len(sequences), max((len(sequence) for sequence in sequences), default=0)], PAD_ID, np.int32)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return ids
