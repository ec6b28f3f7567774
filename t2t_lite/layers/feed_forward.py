"""Position-wise feed-forward networks."""

import keras

from t2t_lite.arrays import Array
from t2t_lite.layers.base import Layer, Shape
from t2t_lite.layers.dropout import Dropout, Seeds
from t2t_lite.layers.ops import ops, reshape_like


@keras.saving.register_keras_serializable(package="t2t_lite")
class FeedForward(Layer):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, equation 2 of the paper.

    Args:
      hidden_size: width of input and output, d_model.
      filter_size: width between the two products, d_ff.
      dropout: rate of the dropout between the two products; the paper has none.

    Call arguments:
      x: float [batch, length, hidden].
      seeds: the random numbers for dropout, see `Dropout`; None: no dropout.

    Example:

    >>> layer = FeedForward(hidden_size=8, filter_size=32)
    >>> ops.shape(layer(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    _activation: str | None = "relu"
    _use_bias = True
    _expansions = 1  # number of products with x; one wide matrix for all of them is faster

    def __init__(self, hidden_size: int, filter_size: int, dropout: float = 0.0, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.filter_size = filter_size
        self.dropout = dropout
        options = {"use_bias": self._use_bias, "dtype": self.dtype_policy}
        width = self._expansions * filter_size
        self.expand = keras.layers.Dense(width, activation=self._activation, name="expand", **options)
        self._dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)
        self.project = keras.layers.Dense(hidden_size, name="project", **options)

    def build(self, input_shape: Shape) -> None:
        """Creates the weights for inputs of the given shape."""
        self.expand.build(input_shape)
        self.project.build((*input_shape[:-1], self.filter_size))

    def call(self, x: Array, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        inner = self._inner(self.expand(ops.reshape(x, (-1, x.shape[-1]))))
        return reshape_like(self.project(self._dropout(inner, seeds=seeds)), x)

    def _inner(self, expanded: Array) -> Array:
        """Returns the inner layer, float [positions, filter], given [positions, expansions * filter]."""
        return expanded


@keras.saving.register_keras_serializable(package="t2t_lite")
class GatedFeedForward(FeedForward):
    """SwiGLU(x) = (swish(x W) * x V) W2, without biases (Shazeer 2020, arXiv 2002.05202, equation 6).

    It has three matrices instead of two, so it has as many parameters as `FeedForward` at 2/3 of the filter size.

    Args and call arguments: see `FeedForward`.

    Example:

    >>> layer = GatedFeedForward(hidden_size=8, filter_size=32)
    >>> ops.shape(layer(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    _activation = None
    _use_bias = False
    _expansions = 2

    def _inner(self, expanded: Array) -> Array:
        gate, passed = ops.split(expanded, 2, axis=-1)
        return ops.silu(gate) * passed
