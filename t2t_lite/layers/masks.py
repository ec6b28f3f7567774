"""Boolean attention masks: True = may attend."""

from t2t_lite.arrays import Array
from t2t_lite.layers.ops import ops


def padding_mask(ids: Array) -> Array:
    """Returns the mask that hides padding; int [batch, length] -> bool [batch, 1, 1, length]."""
    return ops.not_equal(ids, 0)[:, None, None, :]


def causal_mask(positions: Array) -> Array:
    """Returns the mask that hides later positions; int [length] -> bool [length, length]."""
    return positions <= ops.expand_dims(positions, 1)
