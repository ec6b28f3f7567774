"""Position-wise feed-forward networks."""

import keras

from t2t_lite.arrays import Array
from t2t_lite.keras_ops import ops
from t2t_lite.layers.base import Layer, Shape
from t2t_lite.layers.cost import StepBytes, compute_bytes
from t2t_lite.layers.dropout import Dropout, Seeds


@keras.saving.register_keras_serializable(package="t2t_lite")
class FeedForward(Layer):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, equation 2 of the paper.

    Args:
      hidden_size: width of input and output, d_model.
      filter_size: width between the two products, d_ff.
      dropout: rate of the dropout between the two products; the paper has none.

    Call arguments:
      x: float [batch, length, hidden].
      seeds: the random numbers of a training step, see `Dropout`; None otherwise.

    Example:

    >>> layer = FeedForward(hidden_size=8, filter_size=32)
    >>> ops.shape(layer(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    def __init__(self, hidden_size: int, filter_size: int, dropout: float = 0.0, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.filter_size = filter_size
        self.dropout = dropout
        self.expand = keras.layers.Dense(filter_size, activation="relu", name="expand", dtype=self.dtype_policy)
        self._dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)
        self.project = keras.layers.Dense(hidden_size, name="project", dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        """Creates the weights for inputs of the given shape."""
        self.expand.build(input_shape)
        self.project.build((*input_shape[:-1], self.expand.units))

    def call(self, x: Array, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        inner = self._dropout(self.expand(ops.reshape(x, (-1, x.shape[-1]))), seeds=seeds)
        return ops.reshape(self.project(inner), ops.shape(x))

    def flops(self, length: float) -> float:
        """Returns the operations of a sentence."""
        return 2 * length * 2 * self.hidden_size * self.filter_size

    def step_bytes(self, length: int) -> StepBytes:
        """Returns the memory: the inner layer, and with dropout its mask and the result."""
        kept = self.filter_size * compute_bytes(self) * (3 if self.dropout else 1)
        return StepBytes(kept, widest=self.filter_size)


@keras.saving.register_keras_serializable(package="t2t_lite")
class GatedFeedForward(Layer):
    """SwiGLU(x) = (swish(x W) * x V) W2, without biases (Shazeer 2020, arXiv 2002.05202, equation 6).

    It has three matrices instead of two: with two thirds of the filter size it has as many parameters as `FeedForward`.

    Args and call arguments: see `FeedForward`.

    Example:

    >>> layer = GatedFeedForward(hidden_size=8, filter_size=32)
    >>> ops.shape(layer(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    def __init__(self, hidden_size: int, filter_size: int, dropout: float = 0.0, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.filter_size = filter_size
        self.dropout = dropout
        # One wide product is faster than two. The columns of the gate come first, then those of the linear part.
        self.expand = keras.layers.Dense(2 * filter_size, use_bias=False, name="expand", dtype=self.dtype_policy)
        self._dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)
        self.project = keras.layers.Dense(hidden_size, use_bias=False, name="project", dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        """Creates the weights for inputs of the given shape."""
        self.expand.build(input_shape)
        self.project.build((*input_shape[:-1], self.filter_size))

    def call(self, x: Array, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        gate, passed = ops.split(self.expand(ops.reshape(x, (-1, x.shape[-1]))), 2, axis=-1)
        inner = self._dropout(ops.silu(gate) * passed, seeds=seeds)
        return ops.reshape(self.project(inner), ops.shape(x))

    def flops(self, length: float) -> float:
        """Returns the operations of a sentence."""
        return 2 * length * 3 * self.hidden_size * self.filter_size

    def step_bytes(self, length: int) -> StepBytes:
        """Returns the memory: gate, swish of the gate, linear part, product; with dropout two more."""
        kept = self.filter_size * compute_bytes(self) * (6 if self.dropout else 4)
        return StepBytes(kept, widest=2 * self.filter_size)
