"""Self-attention over a whole sequence or step by step with a cache, with optional rotary or relative positions.

The replacements for self-attention (table 1 of the paper) have the same methods: `call`, `start_cache`, `grow_cache`
and `step`. Stepping gives the same results as `call`. `compact_cache` is optional.
"""

import keras

from t2t_lite.arrays import Array, Forwarded
from t2t_lite.layers.attention import MultiHeadAttention, attention_weights, causal_mask
from t2t_lite.layers.base import Shape
from t2t_lite.layers.beam_ancestry import BeamAncestry, Cache
from t2t_lite.layers.dropout import Seeds
from t2t_lite.layers.ops import dynamic_shape, ops
from t2t_lite.layers.positions import rotate


@keras.saving.register_keras_serializable(package="t2t_lite")
class SelfAttention(MultiHeadAttention):
    """Every position attends to every position or, if causal, to itself and all earlier ones.

    Args:
      hidden_size, num_heads, key_size, value_size, dropout, use_bias: see `MultiHeadAttention`.
      causal: whether a position sees only itself and earlier ones.
      rotary: whether to rotate queries and keys by their positions, see `rotate`.

    Call arguments:
      x: float [batch, length, hidden].
      padding_mask: bool [batch, 1, 1, length], True = a token, not padding; ignored if causal, because padding follows
        all tokens, so no token sees it.
      seeds: the random numbers for dropout, see `Dropout`; None: no dropout.

    Example:

    >>> attention = SelfAttention(hidden_size=8, num_heads=2, causal=True)
    >>> ops.shape(attention(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        causal: bool,
        rotary: bool = False,
        key_size: int | None = None,
        value_size: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(hidden_size, num_heads, key_size, value_size, dropout, use_bias, **kwargs)
        self.causal = causal
        self.rotary = rotary

    def call(self, x: Array, padding_mask: Array | None = None, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        positions = ops.arange(dynamic_shape(x)[1])
        queries, keys_values = self.heads(x, positions)
        return self.attend(queries, keys_values, self._mask(positions, padding_mask), positions, positions, seeds)

    def attention(self, x: Array, padding_mask: Array | None = None) -> Array:
        """Returns the attention weights, float32 [batch, heads, length, length]."""
        positions = ops.arange(dynamic_shape(x)[1])
        queries, (keys, _) = self.heads(x, positions)
        return attention_weights(self.scores(queries, keys, positions, positions), self._mask(positions, padding_mask))

    def _mask(self, positions: Array, padding_mask: Array | None) -> Array:
        if self.causal:
            return causal_mask(positions)
        return ops.ones((1, 1), "bool") if padding_mask is None else padding_mask

    def heads(self, x: Array, positions: Array) -> tuple[Array, tuple[Array, Array]]:
        """Projects float [batch, length, hidden] at int positions [length] to (queries, (keys, values))."""
        queries, (keys, values) = self.queries_keys_values(x)
        if self.rotary:
            queries, keys = rotate(queries, positions), rotate(keys, positions)
        return queries, (keys, values)

    def scores(self, queries: Array, keys: Array, query_positions: Array, key_positions: Array) -> Array:
        """Returns the scores before the softmax, float [batch, heads, queries, keys]. A subclass may change them.

        Positions are int [queries], or [1] if all queries have the same position, and int [keys], or [batch, keys] in a
        decoding step.
        """
        return ops.matmul(queries, ops.swapaxes(keys, -1, -2))

    def attend(
        self,
        queries: Array,
        keys_values: tuple[Array, Array],
        attention_mask: Array,
        query_positions: Array,
        key_positions: Array,
        seeds: Seeds | None = None,
    ) -> Array:
        """Returns float [batch, queries, hidden]. For the positions, see `scores`."""
        if type(self).scores is SelfAttention.scores:
            return super().call(queries, keys_values, attention_mask, seeds=seeds)
        keys, values = keys_values
        scores = self.scores(queries, keys, query_positions, key_positions)
        weights = ops.cast(attention_weights(scores, attention_mask), values.dtype)
        weights = self._dropout(weights, seeds=seeds)
        return self.combine_heads(self._weighted(weights, values, query_positions, key_positions))

    def _weighted(self, weights: Array, values: Array, query_positions: Array, key_positions: Array) -> Array:
        """Returns the sums of the weighted values, float [batch, heads, queries, d_v]."""
        return ops.matmul(weights, values)

    def start_cache(self, batch: int | Array, beam_size: int, max_length: int | Array) -> Cache:
        """Returns an empty cache for the keys and values of `max_length` positions in all beams, see `Cache`."""
        entries = max_length * beam_size
        return Cache(
            ops.zeros((batch, self.num_heads, self.key_size, entries), self.compute_dtype),
            ops.zeros((batch, self.num_heads, entries, self.value_size), self.compute_dtype),
        )

    def grow_cache(self, cache: Cache, beam_size: int, max_length: int | Array) -> Cache:
        """Returns the cache, enlarged to `max_length` positions."""
        more = (0, max_length * beam_size - ops.shape(cache.values)[2])
        none = (0, 0)
        return Cache(ops.pad(cache.keys, (none, none, none, more)), ops.pad(cache.values, (none, none, more, none)))

    def compact_cache(self, cache: Cache, kept: Array) -> Cache:
        """Returns a cache of the entries `kept`, see `compact_ancestry`."""
        return cache.compact(kept)

    def step(self, x: Array, position: int | Array, cache: Cache, ancestry: BeamAncestry) -> tuple[Array, Cache]:
        """Runs one decoding step of a causal layer.

        Args:
          x: float [batch, beam, hidden], the hypotheses' newest position.
          position: int scalar, the position of x.
          cache: keys and values of all positions so far, from `start_cache` or the previous step.
          ancestry: the `BeamAncestry` of the hypotheses.

        Returns:
          (float [batch, beam, hidden], the cache with the keys and values of x added).
        """
        here = ops.reshape(position, (1,))
        queries, keys_values = self.heads(x, here)
        cache = cache.with_entries(ancestry.place, *keys_values)
        return self.attend(queries, cache.keys_values, ancestry.mask, here, ancestry.positions), cache


@keras.saving.register_keras_serializable(package="t2t_lite")
class RelativeSelfAttention(SelfAttention):
    """Self-attention with learned vectors for relative positions (Shaw et al. 2018, arXiv 1803.02155).

    As in equations 3 and 4 of that paper, a vector that depends on the distance from the query is added to each key and
    value. All heads share these vectors. Scores and outputs are computed as two products each, to avoid a tensor of
    [batch, queries, length, size].

    Args:
      max_relative_position: k; greater distances count as k.
      others: see `SelfAttention`.

    Example:

    >>> attention = RelativeSelfAttention(hidden_size=8, num_heads=2, causal=False, max_relative_position=4)
    >>> ops.shape(attention(ops.ones((2, 5, 8)), padding_mask=ops.ones((2, 1, 1, 5), "bool")))
    (2, 5, 8)
    """

    def __init__(
        self, hidden_size: int, num_heads: int, causal: bool, max_relative_position: int, **kwargs: Forwarded
    ) -> None:
        super().__init__(hidden_size, num_heads, causal, **kwargs)
        self.max_relative_position = max_relative_position

    def build(self, input_shape: Shape | None = None) -> None:
        """Creates the attention matrices, and a vector for each distance from -k to k, float32 [2k + 1, size]."""
        super().build(input_shape)
        distances = 2 * self.max_relative_position + 1
        self.relative_keys = self._matrix("relative_keys", (distances, self.key_size))
        self.relative_values = self._matrix("relative_values", (distances, self.value_size))

    def scores(self, queries: Array, keys: Array, query_positions: Array, key_positions: Array) -> Array:
        """Returns the scores before the softmax, float [batch, heads, queries, keys]."""
        relative = self._relative(self.relative_keys, query_positions, key_positions)
        scores = super().scores(queries, keys, query_positions, key_positions)
        return scores + _by_query(queries, ops.swapaxes(relative, -1, -2))

    def _weighted(self, weights: Array, values: Array, query_positions: Array, key_positions: Array) -> Array:
        relative = self._relative(self.relative_values, query_positions, key_positions)
        return ops.matmul(weights, values) + _by_query(weights, relative)

    def _relative(self, vectors: Array, query_positions: Array, key_positions: Array) -> Array:
        """Returns the vector for each pair's distance, float [queries, keys, size] or [batch, queries, keys, size]."""
        far = self.max_relative_position
        distances = key_positions[..., None, :] - query_positions[:, None]
        return ops.cast(ops.take(vectors, ops.clip(distances, -far, far) + far, axis=0), self.compute_dtype)


def _by_query(x: Array, matrices: Array) -> Array:
    """Multiplies float [batch, heads, queries, n] by matrices.

    There is one matrix per query, [queries, n, m], or, for a single query position, one per sentence, [batch, 1, n, m].
    """
    if len(matrices.shape) == 4:
        return ops.matmul(x, matrices)
    batch, heads, queries, size = ops.shape(x)
    by_query = ops.reshape(ops.transpose(x, (2, 0, 1, 3)), (queries, batch * heads, size))
    product = ops.reshape(ops.matmul(by_query, matrices), (queries, batch, heads, -1))
    return ops.transpose(product, (1, 2, 0, 3))
