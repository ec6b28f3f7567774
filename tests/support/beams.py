"""Searches that are made up."""

import numpy as np


def descending_beams(batch, beam_size, length, tokens=10, room=0, seed=0):
    """Yields (position, ancestry, histories int32 [batch, beam, position + 1]): all tokens so far, 0 the first.

    The ancestry has `room` for so many more positions than there will be.
    """
    from t2t_lite.layers.beam_ancestry import initial_ancestry, next_ancestry

    random = np.random.default_rng(seed)
    ancestry = initial_ancestry(batch, beam_size, length + room)
    parents = np.broadcast_to(np.arange(beam_size, dtype="int32"), (batch, beam_size))
    histories = np.zeros((batch, beam_size, 1), "int32")
    for position in range(length):
        ancestry = next_ancestry(ancestry, parents, position)
        yield position, ancestry, histories
        parents = random.integers(0, beam_size, (batch, beam_size)).astype("int32")
        newest = random.integers(1, tokens, (batch, beam_size, 1)).astype("int32")
        histories = np.concatenate([np.take_along_axis(histories, parents[:, :, None], axis=1), newest], axis=2)
