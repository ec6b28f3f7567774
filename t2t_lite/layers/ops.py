"""Keras' operations, untyped because type checkers infer that most of them may return None, and additions to them."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import keras

from t2t_lite.arrays import Array

ops: Any = keras.ops
# Keras may use another backend, and TensorFlow be missing.
tf: Any = importlib.import_module("tensorflow") if keras.backend.backend() == "tensorflow" else None


def dynamic_shape(x: Array) -> Sequence[int | Array]:
    """Returns the sizes of the dimensions of x: ints if known, otherwise int32 scalars.

    Layers that occur many times in a model use this, because `ops.shape` creates four TensorFlow operations for each
    unknown size, all of which delay the first training step.
    """
    if tf and None in x.shape and not keras.backend.is_keras_tensor(x):
        sizes = tf.unstack(tf.shape(x))
        return [size if known is None else known for known, size in zip(x.shape, sizes)]
    return ops.shape(x)


def reshape_like(x: Array, other: Array) -> Array:
    """Returns x in the shape of another tensor, without splitting that shape into scalars."""
    if tf and not keras.backend.is_keras_tensor(x):
        return tf.reshape(x, tf.shape(other))
    return ops.reshape(x, ops.shape(other))


def matmul_transposed(x: Array, y: Array, transpose_x: bool = False, transpose_y: bool = False) -> Array:
    """Returns the matrix product of x and y, with one or both transposed in their last two dimensions.

    TensorFlow's kernels read a matrix either way, but Keras' operation lacks an argument for that.
    """
    if tf:
        return tf.matmul(x, y, transpose_a=transpose_x, transpose_b=transpose_y)
    return ops.matmul(ops.swapaxes(x, -1, -2) if transpose_x else x, ops.swapaxes(y, -1, -2) if transpose_y else y)


# Automatic differentiation does not know that two tensors have equal shapes, and would add six operations to the
# gradient of each sum or product, as if one tensor had been broadcast.
def add_equal_shapes(x: Array, y: Array) -> Array:
    """Returns x + y of two tensors of the same shape."""
    if tf and not keras.backend.is_keras_tensor(x):
        return tf.add_n([x, y])
    return x + y


@ops.custom_gradient
def multiply_by_mask(x: Array, mask: Array) -> tuple[Array, Callable[..., tuple[Array, None]]]:
    """Returns x * mask of two tensors of the same shape. The mask has no gradient."""
    return x * mask, lambda *upstream: (upstream[0] * mask, None)


# Number of rows in a block; one matrix product sums the rows with the same id within a block.
_BLOCK = 128


def take_rows(matrix: Array, ids: Array) -> Array:
    """Returns the rows of `matrix`, float [rows, width], at `ids`, int of any shape: float [*ids, width].

    Under JAX, the gradient is custom. XLA's gradient adds each row separately, and on a GPU the additions for padding
    and frequent tokens wait for each other, which takes a quarter of a training step. Here, rows are first sorted by
    id, and rows with the same id are summed in blocks.
    """
    if keras.backend.backend() != "jax":
        return ops.take(matrix, ids, axis=0)
    number, width = matrix.shape
    flat = ops.reshape(ids, (-1,))
    missing = -flat.shape[0] % _BLOCK

    @ops.custom_gradient
    def take(matrix: Array) -> tuple[Array, Callable[..., Array]]:
        def grad(*upstream: Array) -> Array:
            (dy,) = keras.tree.flatten(upstream)
            order = ops.argsort(flat)
            # The padding of the last block has the id of a nonexistent row, and is dropped.
            blocks = ops.reshape(ops.pad(ops.take(flat, order), (0, missing), constant_values=number), (-1, _BLOCK))
            rows = ops.pad(ops.take(ops.reshape(dy, (-1, width)), order, axis=0), ((0, missing), (0, 0)))
            before = ops.pad(blocks[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
            firsts = ops.where(blocks != before, blocks, number)
            is_same = ops.cast(firsts[:, :, None] == blocks[:, None, :], dy.dtype)
            sums = ops.matmul(is_same, ops.reshape(rows, (-1, _BLOCK, width)))
            return ops.segment_sum(ops.reshape(sums, (-1, width)), ops.reshape(firsts, (-1,)), number)

        return ops.take(matrix, ids, axis=0), grad

    return take(ops.convert_to_tensor(matrix))
