"""How much padding the batches of training have."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.data.pipeline import cut_into_batches, window_size


class Padding(NamedTuple):
    """The padding of one side of batches.

    Args:
      lengths: the length to which each batch is padded: its longest text in tokens, int64 [batches].
      tokens: the number of real tokens of each batch, int64 [batches].
      rows: the number of texts of each batch, int64 [batches].
    """

    lengths: np.ndarray
    tokens: np.ndarray
    rows: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """The share of padding in each batch, float64 [batches]."""
        return 1 - self.tokens / (self.lengths * self.rows)

    @property
    def share(self) -> float:
        """The share of padding in all positions of all batches."""
        return float(1 - self.tokens.sum() / max(1, (self.lengths * self.rows).sum()))


def padding_of_batches(
    lengths: tuple[np.ndarray, np.ndarray], batch_tokens: int, max_length: int
) -> tuple[Padding, Padding]:
    """Returns the padding of the inputs and of the targets if examples are cut into batches as in training.

    Args:
      lengths: the lengths of inputs and targets in tokens, end symbol included: int64 [examples] each.
      batch_tokens: target tokens per batch.
      max_length: examples with a longer side are left out, as in training.
    """
    kept = np.maximum(*lengths) <= max_length
    inputs, targets = (side[kept] for side in lengths)
    found = [[np.zeros([3, 0], np.int64)] * 2]
    window = max(1, window_size(len(targets)))
    for start in range(0, len(targets), window):
        sides = [tf.constant(side[start : start + window], tf.int64) for side in (inputs, targets)]
        rows = cut_into_batches(sides[0], sides[1], batch_tokens, None)
        of_batches = [tf.gather(side, rows) for side in sides]
        found.append(
            [
                np.stack([tf.reduce_max(side, axis=1), tf.reduce_sum(side, axis=1), rows.row_lengths()])
                for side in of_batches
            ]
        )
    of_inputs, of_targets = (Padding(*np.concatenate(parts, axis=1)) for parts in zip(*found))
    return of_inputs, of_targets
