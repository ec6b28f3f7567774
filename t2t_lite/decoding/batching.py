"""Batches of sentences of similar length."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from t2t_lite.data.vocab import PAD_ID


def by_length(rows: Sequence[int], lengths: Sequence[int], batch_size_of: Callable[[int], int]) -> Iterator[list[int]]:
    """Groups rows, indices into `lengths`, into batches of similar length, the longest first.

    `batch_size_of` maps the longest length of a batch to its maximum number of rows.
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
    """Returns sequences of ids as one padded array, int32 [batch, length]."""
    ids = np.full([len(sequences), max((len(sequence) for sequence in sequences), default=0)], PAD_ID, np.int32)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return ids
