"""Multi-head attention (section 3.2 of the paper)."""

import keras
from keras import ops

# Added to forbidden scores before the softmax. It stands for the paper's minus infinity: exp() of it is exactly 0,
# but a row in which everything is forbidden (an empty row that fills up a batch) gives even weights and not NaN.
FORBIDDEN = -1e9


def attend(queries, keys, values, mask):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V, equation 1. The softmax is computed in float32.

    Args:
      queries: float [batch, heads, queries, d_k].
      keys: float [batch, heads, length, d_k].
      values: float [batch, heads, length, d_v].
      mask: bool, broadcast to [batch, heads, queries, length]; True = may attend.

    Returns:
      (float [batch, heads, queries, d_v], the weights, float32 [batch, heads, queries, length]).
    """
    depth = queries.shape[-1]
    scores = ops.matmul(queries * depth**-0.5, ops.transpose(keys, (0, 1, 3, 2)))  # [batch, heads, queries, length]
    # The sum with a small additive mask is cheaper than a broadcast choice between scores and a constant.
    forbidden = ops.cast(ops.logical_not(mask), "float32") * FORBIDDEN
    weights = ops.softmax(ops.cast(scores, "float32") + forbidden)
    return ops.matmul(ops.cast(weights, values.dtype), values), weights


class MultiHeadAttention(keras.layers.Layer):
    """Projects to heads, attends in each, and projects back: plain matrices, no biases.

    Keys and values are made by `keys_values` and handed to the call, because a decoder keeps them from step to step.

    Args:
      hidden_size: width of input and output, d_model.
      num_heads: h; each head is hidden_size / num_heads wide.

    Call arguments:
      x: float [batch, queries, hidden], what asks.
      keys_values: pair of float [batch, heads, length, depth], as `keys_values` gives it.
      attention_mask: bool, broadcast to [batch, heads, queries, length]; True = may attend.

    Raises:
      ValueError: if the heads do not divide the width.
    """

    def __init__(self, hidden_size, num_heads, **kwargs):
        super().__init__(**kwargs)
        if hidden_size % num_heads:
            raise ValueError(f"hidden_size {hidden_size} cannot be shared out among {num_heads} heads")
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.depth = hidden_size // num_heads

    def build(self, input_shape):
        """Makes W^Q, W^K, W^V and W^O, each float32 [hidden, hidden]; the heads lie side by side."""
        shape = (self.hidden_size, self.hidden_size)
        self.query, self.key, self.value, self.output_projection = (
            self.add_weight(name=name, shape=shape, initializer="glorot_uniform")
            for name in ("query", "key", "value", "output")
        )

    def call(self, x, keys_values, attention_mask):
        """Returns float [batch, queries, hidden]."""
        keys, values = keys_values
        mixed, _ = attend(self._to_heads(x, self.query), keys, values, attention_mask)
        joined = ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (-1, self.hidden_size))  # [batch * queries, hidden]
        return ops.reshape(ops.matmul(joined, ops.cast(self.output_projection, self.compute_dtype)), ops.shape(x))

    def keys_values(self, x):
        """Projects float [batch, length, hidden] to a pair of float [batch, heads, length, depth]."""
        return self._to_heads(x, self.key), self._to_heads(x, self.value)

    def _to_heads(self, x, kernel):
        x = ops.cast(x, self.compute_dtype)
        flat = ops.matmul(ops.reshape(x, (-1, self.hidden_size)), ops.cast(kernel, self.compute_dtype))
        batch, length = ops.shape(x)[:2]
        split = ops.reshape(flat, (batch, length, self.num_heads, self.depth))
        return ops.transpose(split, (0, 2, 1, 3))  # [batch, heads, length, depth]
