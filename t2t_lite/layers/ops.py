"""Keras' operations. They have no annotations, and type checkers infer that most of them may return None."""

from typing import Any

import keras

from t2t_lite.arrays import Array

ops: Any = keras.ops


def matmul_transposed(x: Array, y: Array, transpose_x: bool = False, transpose_y: bool = False) -> Array:
    """Returns the matrix product of x and y, one or both of them transposed in their last two dimensions.

    TensorFlow's kernels read a matrix either way, but Keras' operation has no argument for that.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.matmul(x, y, transpose_a=transpose_x, transpose_b=transpose_y)
    return ops.matmul(ops.swapaxes(x, -1, -2) if transpose_x else x, ops.swapaxes(y, -1, -2) if transpose_y else y)
