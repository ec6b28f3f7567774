"""Boolean attention masks: True = may attend. They are made once per pass and passed down."""

from keras import ops


def padding_mask(ids):
    """Returns which positions hold a token and not padding: int [batch, length] -> bool [batch, 1, 1, length]."""
    return ops.not_equal(ids, 0)[:, None, None, :]


def causal_mask(length):
    """Returns the mask that hides later positions: bool [1, 1, length, length]."""
    positions = ops.arange(length)
    return (positions[None, :] <= positions[:, None])[None, None, :, :]
