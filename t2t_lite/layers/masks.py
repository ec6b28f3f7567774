"""Boolean attention masks: True = may attend. Made once a pass and handed down."""

from keras import ops


def padding_mask(ids):
    """Returns which positions hold a token and not padding: int [batch, length] -> bool [batch, 1, 1, length]."""
    return ops.not_equal(ids, 0)[:, None, None, :]


def causal_mask(length):
    """Returns a mask by which no position sees a later one: bool [1, 1, length, length]."""
    positions = ops.arange(length)
    return (positions[None, :] <= positions[:, None])[None, None, :, :]
