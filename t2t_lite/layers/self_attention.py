"""Self-attention, in one pass over a sequence or step by step with a cache; here, too, positions that attention knows.

What may stand in the place of self-attention (table 1 of the paper) has the same three methods as this layer: `call`,
`start_cache` and `step`, and stepping gives what `call` gives.
"""

from keras import ops

from t2t_lite.layers.attention import MultiHeadAttention, attention_weights
from t2t_lite.layers.masks import causal_mask, visible_up_to
from t2t_lite.layers.positions import rotate


class SelfAttention(MultiHeadAttention):
    """Every position attends to every position, or in a decoder to all up to itself.

    Args:
      hidden_size, num_heads, key_size, value_size, dropout: as `MultiHeadAttention` takes them.
      causal: whether a position sees only itself and those before it.
      rotary: whether queries and keys are rotated by their positions, see `rotate`.

    Call arguments:
      x: float [batch, length, hidden].
      padding_mask: bool [batch, 1, 1, length], True = a piece and not padding; ignored if causal, where padding comes
        after all pieces and so is never seen by them.
      seeds: `CallSeeds` in training, None otherwise.
    """

    def __init__(self, hidden_size, num_heads, causal, rotary=False, **kwargs):
        super().__init__(hidden_size, num_heads, **kwargs)
        self.causal = causal
        self.rotary = rotary

    def call(self, x, padding_mask=None, seeds=None):
        """Returns float [batch, length, hidden]."""
        length = ops.shape(x)[1]
        positions = ops.arange(length)
        queries, keys_values = self.heads(x, positions)
        mask = causal_mask(length) if self.causal else padding_mask
        return self.mix(queries, keys_values, mask, positions, seeds)

    def heads(self, x, positions):
        """Projects float [batch, length, hidden] at int positions [length] to (queries, (keys, values))."""
        queries, (keys, values) = self.queries_keys_values(x)
        if self.rotary:
            queries, keys = rotate(queries, positions), rotate(keys, positions)
        return queries, (keys, values)

    def mix(self, queries, keys_values, attention_mask, positions, seeds=None):
        """Returns float [batch, queries, hidden], for queries at the given positions, int [queries]."""
        return super().call(queries, keys_values, attention_mask, seeds=seeds)

    def start_cache(self, rows, max_length):
        """Returns room for the keys and values of `max_length` positions: float [rows, heads, max_length, size]."""
        return tuple(
            ops.zeros((rows, self.num_heads, max_length, size), self.compute_dtype)
            for size in (self.key_size, self.value_size)
        )

    def step(self, x, position, cache):
        """Makes one step of a causal layer.

        Args:
          x: float [rows, 1, hidden].
          position: int scalar, that of x.
          cache: keys and values of all positions so far, as `start_cache` and earlier steps gave it.

        Returns:
          (float [rows, 1, hidden], the cache with the keys and values of x written in).
        """
        positions = ops.reshape(position, (1,))
        queries, keys_values = self.heads(x, positions)
        cache = written_into(cache, position, keys_values)
        mask = visible_up_to(positions, ops.shape(cache[0])[2])
        return self.mix(queries, cache, mask, positions), cache


def written_into(cache, place, keys_values):
    """Returns the cache's keys and values with those of one position, [rows, heads, 1, size], at an int `place`."""
    return tuple(
        ops.slice_update(old, (0, 0, place, 0), ops.cast(new, old.dtype)) for old, new in zip(cache, keys_values)
    )


class RelativeSelfAttention(SelfAttention):
    """Self-attention with learned vectors for relative positions (Shaw et al. 2018, arXiv 1803.02155).

    Equations 3 and 4 there: a key and a value have a vector added that depends on how far they lie from the query, the
    same for all heads. It is made of two products each, so that no tensor is [batch, queries, length, size].

    Args:
      max_relative_position: k, the distance beyond which all distances count as k.
      others: as `SelfAttention` takes them.
    """

    def __init__(self, hidden_size, num_heads, causal, max_relative_position, **kwargs):
        super().__init__(hidden_size, num_heads, causal, **kwargs)
        self.max_relative_position = max_relative_position

    def build(self, input_shape):
        """Makes the matrices of attention and a vector for each distance from -k to k, float32 [2k + 1, size]."""
        super().build(input_shape)
        distances = 2 * self.max_relative_position + 1
        self.relative_keys = self._matrix("relative_keys", (distances, self.key_size))
        self.relative_values = self._matrix("relative_values", (distances, self.value_size))

    def mix(self, queries, keys_values, attention_mask, positions, seeds=None):
        """Returns float [batch, queries, hidden], for queries at the given positions, int [queries]."""
        keys, values = keys_values
        far = self.max_relative_position
        distances = ops.arange(ops.shape(keys)[2])[None, :] - positions[:, None]  # [queries, length]
        places = ops.clip(distances, -far, far) + far
        relative_keys, relative_values = (
            ops.cast(ops.take(vectors, places, axis=0), self.compute_dtype)  # [queries, length, size]
            for vectors in (self.relative_keys, self.relative_values)
        )
        scores = ops.matmul(queries, ops.swapaxes(keys, -1, -2))
        scores = scores + _by_query(queries, ops.swapaxes(relative_keys, -1, -2))
        weights = ops.cast(attention_weights(scores, attention_mask), values.dtype)
        weights = self.dropout(weights, seeds=seeds)
        return self.join(ops.matmul(weights, values) + _by_query(weights, relative_values))


def _by_query(x, matrices):
    """Multiplies float [batch, heads, queries, n] with the matrix [n, m] of each query, [queries, n, m]."""
    batch, heads, queries, size = ops.shape(x)
    by_query = ops.reshape(ops.transpose(x, (2, 0, 1, 3)), (queries, batch * heads, size))
    product = ops.reshape(ops.matmul(by_query, matrices), (queries, batch, heads, -1))
    return ops.transpose(product, (1, 2, 0, 3))
