"""Sizes of tensors that are known before a graph runs."""

import tensorflow as tf


def static_size(tensor: tf.Tensor, axis: int) -> int:
    """Returns the size of a dimension.

    Raises:
      ValueError: if it is known only when the graph runs.
    """
    size = tensor.shape[axis]
    if size is None:
        raise ValueError(f"dimension {axis} of a tensor of shape {tensor.shape} must be known when the graph is made")
    return size
