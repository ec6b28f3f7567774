"""Searches that are made up."""

import numpy as np


def descending_beams(batch, beam_size, length, pieces=10, room=0, seed=0):
    """Yields (position, lineage, histories int32 [batch, beam, position + 1]): all pieces so far, 0 the first.

    The lineage has `room` for so many more positions than there will be.
    """
    from t2t_lite.layers.beam_ancestry import next_lineage, no_lineage

    random = np.random.default_rng(seed)
    lineage = no_lineage(batch, beam_size, length + room)
    parents = np.broadcast_to(np.arange(beam_size, dtype="int32"), (batch, beam_size))
    histories = np.zeros((batch, beam_size, 1), "int32")
    for position in range(length):
        lineage = next_lineage(lineage, parents, position)
        yield position, lineage, histories
        parents = random.integers(0, beam_size, (batch, beam_size)).astype("int32")
        newest = random.integers(1, pieces, (batch, beam_size, 1)).astype("int32")
        histories = np.concatenate([np.take_along_axis(histories, parents[:, :, None], axis=1), newest], axis=2)
