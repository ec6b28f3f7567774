"""Multi-head attention (section 3.2 of the paper)."""

import itertools
from collections.abc import Callable

import keras

from t2t_lite.arrays import Array
from t2t_lite.layers.base import Layer, Shape
from t2t_lite.layers.dropout import Dropout, Seeds
from t2t_lite.layers.ops import dynamic_shape, matmul_transposed, ops

# Added to masked scores before the softmax, instead of the paper's minus infinity. exp() of it is exactly 0, but a
# fully masked row (an empty row that pads a batch) gets uniform weights instead of NaN.
FORBIDDEN = -1e9


def padding_mask(ids: Array) -> Array:
    """Returns the mask that hides padding; int [batch, length] -> bool [batch, 1, 1, length]."""
    return ops.not_equal(ids, 0)[:, None, None, :]


def causal_mask(positions: Array) -> Array:
    """Returns the mask that hides later positions; int [length] -> bool [length, length]."""
    return positions <= ops.expand_dims(positions, 1)


def attention_weights(scores: Array, attention_mask: Array) -> Array:
    """Returns the softmax of scores over the unmasked positions, computed in float32.

    Args:
      scores: float [..., queries, length].
      attention_mask: bool, broadcast to the scores; True = may attend.
    """
    # Adding a small mask is cheaper than a broadcast `where` between scores and a constant.
    forbidden = ops.cast(ops.logical_not(attention_mask), "float32") * FORBIDDEN
    return ops.softmax(_add_to_scores(ops.cast(scores, "float32"), forbidden))


def attend(
    queries: Array,
    keys: Array,
    values: Array,
    attention_mask: Array,
    drop: Callable[[Array], Array] = lambda weights: weights,
) -> tuple[Array, Array]:
    """Computes softmax(Q K^T) V, equation 1 for queries already scaled by 1 / sqrt(d_k).

    Args:
      queries: float [..., queries, d_k].
      keys: float [..., length, d_k], with the same leading dimensions.
      values: float [..., length, d_v], with the same leading dimensions.
      attention_mask: bool, broadcast to [..., queries, length]; True = may attend.
      drop: a function applied to the weights before they multiply the values, such as dropout.

    Returns:
      (float [..., queries, d_v], the weights, float32 [..., queries, length]).
    """
    weights = attention_weights(_scores(queries, keys), attention_mask)
    return _weighted_sum(drop(ops.cast(weights, values.dtype)), values), weights


# Automatic differentiation does not know which tensor in a sum or product is broadcast, and would add operations to
# the gradients of both.
@ops.custom_gradient
def _add_to_scores(scores: Array, mask: Array) -> tuple[Array, Callable[..., tuple[Array, None]]]:
    return scores + mask, lambda *upstream: (upstream[0], None)


@ops.custom_gradient
def _scores(queries: Array, keys: Array) -> tuple[Array, Callable[..., tuple[Array, Array]]]:
    def grad(*upstream: Array) -> tuple[Array, Array]:
        (dy,) = upstream
        return ops.matmul(dy, keys), matmul_transposed(dy, queries, transpose_x=True)

    return matmul_transposed(queries, keys, transpose_y=True), grad


@ops.custom_gradient
def _weighted_sum(weights: Array, values: Array) -> tuple[Array, Callable[..., tuple[Array, Array]]]:
    def grad(*upstream: Array) -> tuple[Array, Array]:
        (dy,) = upstream
        return matmul_transposed(dy, values, transpose_y=True), matmul_transposed(weights, dy, transpose_x=True)

    return ops.matmul(weights, values), grad


@keras.saving.register_keras_serializable(package="t2t_lite")
class MultiHeadAttention(Layer):
    """Projects to heads, attends in each head, and projects back (section 3.2.2).

    The call takes projected queries, keys and values, because a decoder caches keys and values between steps.

    Args:
      hidden_size: width of input and output, d_model.
      num_heads: h.
      key_size, value_size: d_k and d_v of one head; None: hidden_size / num_heads.
      dropout: rate of the dropout on attention weights; the paper has none.
      use_bias: whether the projections have biases; the paper's have none.

    Call arguments:
      queries: float [batch, heads, queries, d_k], from `queries` or `queries_keys_values`.
      keys_values: float [batch, heads, length, d_k] and [batch, heads, length, d_v], from `keys_values` or
        `queries_keys_values`.
      attention_mask: bool, broadcast to [batch, heads, queries, length]; True = may attend.
      seeds: the random numbers for dropout, see `Dropout`; None: no dropout.

    Raises:
      ValueError: if num_heads does not divide hidden_size, unless both sizes are given.

    Example:

    >>> attention = MultiHeadAttention(hidden_size=8, num_heads=2)
    >>> x, encoded = ops.ones((2, 3, 8)), ops.ones((2, 5, 8))
    >>> mask = ops.ones((2, 1, 1, 5), "bool")
    >>> ops.shape(attention(attention.queries(x), attention.keys_values(encoded), mask))
    (2, 3, 8)
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        key_size: int | None = None,
        value_size: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        if hidden_size % num_heads and not (key_size and value_size):
            raise ValueError(
                f"hidden_size {hidden_size} is not divisible by num_heads {num_heads}; pass key_size and value_size"
            )
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.key_size = key_size or hidden_size // num_heads
        self.value_size = value_size or hidden_size // num_heads
        self.dropout = dropout
        self.use_bias = use_bias
        self._dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape: Shape | None = None) -> None:
        """Creates W^Q, W^K [hidden, heads * d_k], W^V [hidden, heads * d_v], W^O [heads * d_v, hidden] and biases."""
        keys, values = self.num_heads * self.key_size, self.num_heads * self.value_size
        self.query = self._matrix("query", (self.hidden_size, keys))
        self.key = self._matrix("key", (self.hidden_size, keys))
        self.value = self._matrix("value", (self.hidden_size, values))
        self.output_projection = self._matrix("output", (values, self.hidden_size))
        if self.use_bias:
            widths = {"query": keys, "key": keys, "value": values, "output": self.hidden_size}
            self.biases = {
                name: self.add_weight(name=f"{name}_bias", shape=(width,), initializer="zeros")
                for name, width in widths.items()
            }

    def call(
        self, queries: Array, keys_values: tuple[Array, Array], attention_mask: Array, seeds: Seeds | None = None
    ) -> Array:
        """Returns float [batch, queries, hidden]."""
        mixed, _ = attend(queries, *keys_values, attention_mask, lambda weights: self._dropout(weights, seeds=seeds))
        return self.combine_heads(mixed)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Returns [batch, queries, hidden], given the shape of the queries."""
        return (input_shape[0], input_shape[-2], self.hidden_size)

    def attention_to(self, queries: Array, keys: Array, attention_mask: Array) -> Array:
        """Returns the attention weights, float32 [batch, heads, queries, length]."""
        return attention_weights(_scores(queries, keys), attention_mask)

    def combine_heads(self, mixed: Array) -> Array:
        """Concatenates the heads, float [batch, heads, queries, d_v], and projects them to [batch, queries, hidden]."""
        batch, _, length, _ = dynamic_shape(mixed)
        joined = ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (-1, self.num_heads * self.value_size))
        projected = ops.matmul(joined, ops.cast(self.output_projection, self.compute_dtype))
        if self.use_bias:
            projected = projected + ops.cast(self.biases["output"], self.compute_dtype)
        return ops.reshape(projected, (batch, length, self.hidden_size))

    def queries(self, x: Array) -> Array:
        """Projects float [batch, length, hidden] to queries, float [batch, heads, length, d_k]."""
        return self._project(x, "query")[0]

    def keys_values(self, x: Array) -> tuple[Array, Array]:
        """Projects float [batch, length, hidden] to keys [batch, heads, length, d_k] and values [..., d_v]."""
        keys, values = self._project(x, "key", "value")
        return keys, values

    def queries_keys_values(self, x: Array) -> tuple[Array, tuple[Array, Array]]:
        """Returns (queries, (keys, values)) of float [batch, length, hidden], for self-attention."""
        queries, keys, values = self._project(x, "query", "key", "value")
        return queries, (keys, values)

    def _matrix(self, name: str, shape: tuple[int, int]) -> keras.Variable:
        return self.add_weight(name=name, shape=shape, initializer="glorot_uniform")

    def _project(self, x: Array, *names: str) -> list[Array]:
        """Returns float [batch, heads, length, size] for each name; one wide product is faster than several."""
        self.build_once()

        def scaled(name: str, weight: Array) -> Array:  # scaling the weights is cheaper than scaling the queries
            weight = ops.convert_to_tensor(weight)
            return weight * self.key_size**-0.5 if name == "query" else weight

        matrices = [scaled(name, getattr(self, name)) for name in names]
        widths, (batch, length) = [kernel.shape[1] for kernel in matrices], dynamic_shape(x)[:2]
        x = ops.reshape(ops.cast(x, self.compute_dtype), (-1, self.hidden_size))
        is_even = len(set(widths)) == 1  # stacked and transposed together, which takes fewer operations
        matrix = ops.stack(matrices, axis=1) if is_even else ops.concatenate(matrices, axis=1)
        matrix = ops.reshape(matrix, (self.hidden_size, sum(widths)))
        flat = ops.matmul(x, ops.cast(matrix, self.compute_dtype))
        if self.use_bias:
            biases = ops.concatenate([scaled(name, self.biases[name]) for name in names])
            flat = flat + ops.cast(biases, self.compute_dtype)
        if is_even:
            width, number = widths[0], len(widths)
            heads = ops.reshape(flat, (batch, length, number, self.num_heads, width // self.num_heads))
            return ops.unstack(ops.transpose(heads, (2, 0, 3, 1, 4)), number)
        # `split` instead of slices, because a slice's gradient is padded with zeros to the whole width.
        heads = [
            ops.reshape(part, (batch, length, self.num_heads, width // self.num_heads))
            for part, width in zip(ops.split(flat, list(itertools.accumulate(widths))[:-1], axis=1), widths)
        ]
        return [ops.transpose(part, (0, 2, 1, 3)) for part in heads]
