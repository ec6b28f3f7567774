"""Positional encoding."""

import numpy as np
from keras import ops


def sinusoids(positions, hidden_size):
    """Returns PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(same), section 3.5 of the paper.

    Args:
      positions: int [length].
      hidden_size: d, the even number of channels.

    Returns:
      float32 [length, hidden_size], sines and cosines interleaved.

    Raises:
      ValueError: if hidden_size is odd.
    """
    if hidden_size % 2:
        raise ValueError(f"hidden_size {hidden_size} is odd, but positions come in pairs of sine and cosine")
    rates = np.power(10000.0, -np.arange(0, hidden_size, 2) / hidden_size).astype("float32")
    angles = ops.cast(positions, "float32")[:, None] * rates[None, :]
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # [length, hidden / 2, 2]
    return ops.reshape(pairs, (-1, hidden_size))
