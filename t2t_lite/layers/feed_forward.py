"""Position-wise feed-forward networks, and attention over parameters in their place (appendix of the paper)."""

import keras

from t2t_lite.arrays import Array
from t2t_lite.layers.attention import attend
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
      activation: "relu", or another of Keras' activations in its place, such as "silu" (swish).

    Call arguments:
      x: float [batch, length, hidden].
      seeds: the random numbers for dropout, see `Dropout`; None: no dropout.

    Example:

    >>> layer = FeedForward(hidden_size=8, filter_size=32)
    >>> ops.shape(layer(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    _is_gated = False  # two products with x, without biases; one wide matrix for both is faster

    def __init__(
        self, hidden_size: int, filter_size: int, dropout: float = 0.0, activation: str = "relu", **kwargs: object
    ) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.filter_size = filter_size
        self.dropout = dropout
        self.activation = activation
        options = {"use_bias": not self._is_gated, "dtype": self.dtype_policy}
        width, of_expand = (2 * filter_size, None) if self._is_gated else (filter_size, activation)
        self.expand = keras.layers.Dense(width, activation=of_expand, name="expand", **options)
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
        """Returns the inner layer, float [positions, filter], given that of `expand`."""
        return expanded


@keras.saving.register_keras_serializable(package="t2t_lite")
class GatedFeedForward(FeedForward):
    """SwiGLU(x) = (swish(x W) * x V) W2, without biases (Shazeer 2020, arXiv 2002.05202, equation 6).

    It has three matrices instead of two, so it has as many parameters as `FeedForward` at 2/3 of the filter size.

    Args and call arguments: see `FeedForward`; `activation` has no effect.

    Example:

    >>> layer = GatedFeedForward(hidden_size=8, filter_size=32)
    >>> ops.shape(layer(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    _is_gated = True

    def _inner(self, expanded: Array) -> Array:
        gate, passed = ops.split(expanded, 2, axis=-1)
        return ops.silu(gate) * passed


@keras.saving.register_keras_serializable(package="t2t_lite")
class ParameterAttention(Layer):
    """Multi-head attention with trainable keys and values, "Two Feed-Forward Layers = Attention over Parameters".

    Stored keys and values are multiplied by sqrt(hidden_size), so that their size resembles that of activations.

    Args:
      hidden_size: width of input and output, d_model.
      num_heads: h_p.
      head_size: d_pk = d_pv.
      num_pairs: n_p, key-value pairs per head.
      dropout: rate of the dropout on attention weights; the paper has none.

    Call arguments:
      x: float [batch, length, hidden].
      seeds: the random numbers for dropout, see `Dropout`; None: no dropout.

    Example:

    >>> layer = ParameterAttention(hidden_size=8, num_heads=2, head_size=4, num_pairs=16)
    >>> ops.shape(layer(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    def __init__(
        self, hidden_size: int, num_heads: int, head_size: int, num_pairs: int, dropout: float = 0.0, **kwargs: object
    ) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.head_size = head_size
        self.num_pairs = num_pairs
        self.dropout = dropout
        self._dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape: Shape | None = None) -> None:
        """Creates W^Q [hidden, heads * size], W^O [heads * size, hidden] and keys, values [heads, pairs, size]."""
        width = self.num_heads * self.head_size
        self.query = self.add_weight(name="query", shape=(self.hidden_size, width), initializer="glorot_uniform")
        self.output_projection = self.add_weight(
            name="output", shape=(width, self.hidden_size), initializer="glorot_uniform"
        )
        # Unit variance after the scaling in `call`, like activations after layer norm.
        self.keys, self.values = (
            self.add_weight(
                name=name,
                shape=(self.num_heads, self.num_pairs, self.head_size),
                initializer=keras.initializers.RandomNormal(stddev=self.hidden_size**-0.5),
            )
            for name in ("keys", "values")
        )

    def call(self, x: Array, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        width = self.num_heads * self.head_size
        flat = ops.reshape(ops.cast(x, self.compute_dtype), (-1, self.hidden_size))  # [positions, hidden]
        query = ops.cast(ops.convert_to_tensor(self.query) * self.head_size**-0.5, self.compute_dtype)
        queries = ops.reshape(ops.matmul(flat, query), (-1, self.num_heads, self.head_size))
        keys, values = (
            ops.cast(ops.convert_to_tensor(part) * self.hidden_size**0.5, self.compute_dtype)
            for part in (self.keys, self.values)
        )
        # All positions of all sentences query the same pairs: [heads, positions, size].
        queries, mask = ops.transpose(queries, (1, 0, 2)), ops.ones((1, 1, self.num_pairs), "bool")
        mixed, _ = attend(queries, keys, values, mask, lambda weights: self._drop(weights, seeds))
        joined = ops.reshape(ops.transpose(mixed, (1, 0, 2)), (-1, width))
        return ops.reshape(ops.matmul(joined, ops.cast(self.output_projection, self.compute_dtype)), ops.shape(x))

    def _drop(self, weights: Array, seeds: Seeds | None) -> Array:
        """Applies dropout to weights [heads, positions, pairs] by head, because dropout needs contiguous batch rows."""
        if self._dropout.rate == 0.0:
            return weights
        return ops.stack([self._dropout(head, seeds=seeds) for head in ops.unstack(weights, self.num_heads)])
