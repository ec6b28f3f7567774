"""Multi-head attention (section 3.2 of the paper)."""

import keras
from keras import ops

# Added to forbidden scores before the softmax. It stands for the paper's minus infinity: exp() of it is exactly 0,
# but a row in which everything is forbidden (an empty row that fills up a batch) gives even weights and not NaN.
FORBIDDEN = -1e9


def attend(queries, keys, values, attention_mask):
    """softmax(Q K^T) V: equation 1 for queries that are scaled by 1 / sqrt(d_k). The softmax is computed in float32.

    Args:
      queries: float [batch, heads, queries, d_k].
      keys: float [batch, heads, length, d_k].
      values: float [batch, heads, length, d_v].
      attention_mask: bool, broadcast to [batch, heads, queries, length]; True = may attend.

    Returns:
      (float [batch, heads, queries, d_v], the weights, float32 [batch, heads, queries, length]).
    """
    scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2)))  # [batch, heads, queries, length]
    # The sum with a small additive mask is cheaper than a broadcast choice between scores and a constant.
    forbidden = ops.cast(ops.logical_not(attention_mask), "float32") * FORBIDDEN
    weights = ops.softmax(ops.cast(scores, "float32") + forbidden)
    return ops.matmul(ops.cast(weights, values.dtype), values), weights


class MultiHeadAttention(keras.layers.Layer):
    """Projects to heads, attends in each, and projects back (section 3.2.2): plain matrices, no biases.

    The call takes projected queries, keys and values, because a decoder keeps keys and values from step to step.

    Args:
      hidden_size: width of input and output, d_model.
      num_heads: h; each head is hidden_size / num_heads wide.

    Call arguments:
      queries: float [batch, heads, queries, depth], as `queries` or `queries_keys_values` give them.
      keys_values: pair of float [batch, heads, length, depth], as `keys_values` or `queries_keys_values` give them.
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

    def call(self, queries, keys_values, attention_mask):
        """Returns float [batch, queries, hidden]."""
        mixed, _ = attend(queries, *keys_values, attention_mask)
        batch, _, length, _ = ops.shape(mixed)
        joined = ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (-1, self.hidden_size))  # [batch * queries, hidden]
        projected = ops.matmul(joined, ops.cast(self.output_projection, self.compute_dtype))
        return ops.reshape(projected, (batch, length, self.hidden_size))

    def queries(self, x):
        """Projects float [batch, length, hidden] to queries, float [batch, heads, length, depth]."""
        return self._project(x, self._scaled_query())[0]

    def keys_values(self, x):
        """Projects float [batch, length, hidden] to a pair of float [batch, heads, length, depth]."""
        keys, values = self._project(x, self.key, self.value)
        return keys, values

    def queries_keys_values(self, x):
        """Returns (queries, (keys, values)) of float [batch, length, hidden], for self-attention."""
        queries, keys, values = self._project(x, self._scaled_query(), self.key, self.value)
        return queries, (keys, values)

    def _scaled_query(self):
        # Scaling a matrix is cheaper than scaling what is made with it.
        return ops.convert_to_tensor(self.query) * self.depth**-0.5

    def _project(self, x, *kernels):
        """Returns a float [batch, heads, length, depth] for each kernel; one wide product is faster than several."""
        kernel = ops.cast(ops.concatenate([ops.convert_to_tensor(kernel) for kernel in kernels], 1), self.compute_dtype)
        batch, length = ops.shape(x)[:2]
        flat = ops.matmul(ops.reshape(ops.cast(x, self.compute_dtype), (-1, self.hidden_size)), kernel)
        parts = ops.split(flat, len(kernels), axis=1)
        heads = (batch, length, self.num_heads, self.depth)
        return [ops.transpose(ops.reshape(part, heads), (0, 2, 1, 3)) for part in parts]
