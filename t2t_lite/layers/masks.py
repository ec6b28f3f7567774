"""Boolean attention masks: True = may attend. Made once a pass and handed down."""

from keras import ops


def padding_mask(ids):
    """Returns which positions hold a piece and not padding: int [batch, length] -> bool [batch, 1, 1, length]."""
    return ops.not_equal(ids, 0)[:, None, None, :]


def causal_mask(length):
    """Returns a mask by which no position sees a later one: bool [1, 1, length, length]."""
    return visible_up_to(ops.arange(length), length)


def visible_up_to(positions, length):
    """Returns which of `length` key positions each query position may see: itself and all before it.

    Args:
      positions: int [queries], the positions of the queries.
      length: how many key positions there are.

    Returns:
      bool [1, 1, queries, length].
    """
    return (ops.arange(length)[None, :] <= positions[:, None])[None, None, :, :]
