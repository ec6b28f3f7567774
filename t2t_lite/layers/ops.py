"""Keras' operations. They have no annotations, and type checkers infer that most of them may return None."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from t2t_lite.arrays import Array

ops: Any = keras.ops


def shape_of(x: Array) -> Sequence[int | Array]:
    """Returns the sizes of the dimensions of x, of any shape: ints where they are known, otherwise int32 scalars.

    For layers that a model has many of: `ops.shape` makes four operations of TensorFlow for each size that is not
    known, and the first step of a training waits for all of them.
    """
    if keras.backend.backend() == "tensorflow" and None in x.shape and not keras.backend.is_keras_tensor(x):
        import tensorflow as tf

        sizes = tf.unstack(tf.shape(x))
        return [size if known is None else known for known, size in zip(x.shape, sizes)]
    return ops.shape(x)


def matmul_transposed(x: Array, y: Array, transpose_x: bool = False, transpose_y: bool = False) -> Array:
    """Returns the matrix product of x and y, one or both of them transposed in their last two dimensions.

    TensorFlow's kernels read a matrix either way, but Keras' operation has no argument for that.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.matmul(x, y, transpose_a=transpose_x, transpose_b=transpose_y)
    return ops.matmul(ops.swapaxes(x, -1, -2) if transpose_x else x, ops.swapaxes(y, -1, -2) if transpose_y else y)


# Automatic differentiation does not know that two tensors have equal shapes, and would add six operations to the
# gradient of each sum or product, as if one of them had been broadcast.
def add_equal_shapes(x: Array, y: Array) -> Array:
    """Returns x + y of two tensors of the same shape."""
    if keras.backend.backend() == "tensorflow" and not keras.backend.is_keras_tensor(x):
        import tensorflow as tf

        return tf.add_n([x, y])
    return x + y


@ops.custom_gradient
def multiply_by_mask(x: Array, mask: Array) -> tuple[Array, Callable[..., tuple[Array, None]]]:
    """Returns x * mask of two tensors of the same shape. The mask has no gradient."""

    def grad(*upstream: Array) -> tuple[Array, None]:
        return upstream[0] * mask, None

    return x * mask, grad
