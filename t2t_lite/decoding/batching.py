"""Code that all engines share: it groups sentences of similar length into batches, and scores given outputs."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from t2t_lite.data.vocab import PAD_ID
from t2t_lite.decoding.search.length_penalty import length_penalty


def by_length(
    rows: Sequence[int], lengths: Sequence[int], batch_size_of: Callable[[int], int], most: int | None = None
) -> Iterator[list[int]]:
    """Groups rows (indices into `lengths`) into batches of similar length, longest first.

    `batch_size_of` maps the longest length in a batch to the maximum number of rows; `most` is a limit for all batches.
    """
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: -lengths[row]):
        if batch and len(batch) >= min(batch_size_of(lengths[batch[0]]), most or len(rows)):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def padded(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    ids = np.full([len(sequences), max((len(sequence) for sequence in sequences), default=0)], PAD_ID, np.int32)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return ids


def output_scores(
    outputs: Sequence[Sequence[int]], log_probs: Callable[[], Iterable[float]], alpha: float
) -> list[tuple[float, float]]:
    """Returns (log-probability / length penalty, log-probability) for each output.

    Raises ValueError if an output contains padding, which cannot be scored.
    """
    if any(PAD_ID in output for output in outputs):
        raise ValueError(f"an output to score contains id {PAD_ID}, which is padding; remove it")
    return [(each / length_penalty(len(output), alpha), each) for each, output in zip(log_probs(), outputs)]
