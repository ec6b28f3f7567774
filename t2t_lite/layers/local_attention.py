"""Self-attention restricted to a neighborhood (section 4 and table 1 of the paper), computed in blocks in O(r n d)."""

import keras

from t2t_lite.arrays import Array, Forwarded
from t2t_lite.layers.attention import attention_weights
from t2t_lite.layers.beam_ancestry import BeamAncestry, Cache, ancestry_mask
from t2t_lite.layers.dropout import Seeds
from t2t_lite.layers.ops import ops
from t2t_lite.layers.self_attention import SelfAttention


@keras.saving.register_keras_serializable(package="t2t_lite")
class LocalSelfAttention(SelfAttention):
    """Each position attends to itself and r / 2 positions on either side; if causal, to the last r, itself included.

    Queries are split into blocks. Each block attends to the keys within the neighborhood, which lie in the block itself
    and in the neighboring blocks. Time and memory are linear, not quadratic, in the length.

    Args:
      neighborhood_size: r, even.
      others: see `SelfAttention`.

    Example:

    >>> attention = LocalSelfAttention(hidden_size=8, num_heads=2, causal=True, neighborhood_size=4)
    >>> ops.shape(attention(ops.ones((2, 9, 8))))
    (2, 9, 8)
    """

    def __init__(
        self, hidden_size: int, num_heads: int, causal: bool, neighborhood_size: int, **kwargs: Forwarded
    ) -> None:
        super().__init__(hidden_size, num_heads, causal, **kwargs)
        self.neighborhood_size = neighborhood_size
        self.before = neighborhood_size - 1 if causal else neighborhood_size // 2
        self.after = 0 if causal else neighborhood_size // 2
        self.block = neighborhood_size if causal else neighborhood_size // 2

    def call(self, x: Array, padding_mask: Array | None = None, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        length = ops.shape(x)[1]
        queries, keys_values = self.heads(x, ops.arange(length))
        if padding_mask is None:
            padding_mask = ops.ones((1, 1, 1, length), "bool")
        return self.combine_heads(self.attend_in_blocks(queries, *keys_values, padding_mask, seeds))

    def attend_in_blocks(
        self, queries: Array, keys: Array, values: Array, padding_mask: Array, seeds: Seeds | None = None
    ) -> Array:
        """Attends within each position's neighborhood, in O(r n d).

        Args:
          queries, keys, values: float [batch, heads, length, size], from `heads`.
          padding_mask: bool [batch, 1, 1, length], True = a token and not padding.
          seeds: the random numbers for dropout, see `Dropout`; None: no dropout.

        Returns:
          float [batch, heads, length, d_v].
        """
        cut = self._blocks(queries)
        # Handles one neighbor at a time, to avoid concatenating keys and values of three blocks in memory.
        scores = [ops.matmul(cut, ops.swapaxes(part, -1, -2)) for part in self._neighbors(keys)]
        visible = ops.concatenate(self._neighbors(ops.swapaxes(padding_mask, 2, 3)), axis=3)
        # Which keys of the 2 or 3 neighbors each position in a block may see: bool [block, keys].
        places = ops.arange((2 if self.causal else 3) * self.block) - self.block  # 0 is the block's first position
        distances = places[None, :] - ops.arange(self.block)[:, None]
        reach = ops.logical_and(distances >= -self.before, distances <= self.after)
        mask = ops.logical_and(ops.swapaxes(visible, -1, -2), reach)  # [batch, 1, blocks, block, keys]
        weights = ops.cast(attention_weights(ops.concatenate(scores, axis=-1), mask), values.dtype)
        weights = ops.split(self._dropout(weights, seeds=seeds), len(scores), axis=-1)
        mixed = sum(ops.matmul(part, value) for part, value in zip(weights, self._neighbors(values)))
        batch, heads, blocks, block, size = ops.shape(mixed)
        return ops.reshape(mixed, (batch, heads, blocks * block, size))[:, :, : ops.shape(queries)[2]]

    def _mask(self, positions: Array, padding_mask: Array | None) -> Array:
        """Returns the neighborhoods as a mask over all pairs of positions, as `attention` needs it."""
        distances = positions[None, :] - positions[:, None]
        near = ops.logical_and(distances >= -self.before, distances <= self.after)
        return near if padding_mask is None else ops.logical_and(padding_mask, near)

    def _blocks(self, x: Array) -> Array:
        """Splits [batch, heads, length, size] into [batch, heads, blocks, block, size], padded with zeros."""
        batch, heads, length, size = ops.shape(x)
        blocks = (length + self.block - 1) // self.block
        padded = ops.pad(x, ((0, 0), (0, 0), (0, blocks * self.block - length), (0, 0)))
        return ops.reshape(padded, (batch, heads, blocks, self.block, size))

    def _neighbors(self, x: Array) -> list[Array]:
        """Returns, for all blocks, the previous block, the block itself and, if not causal, the next block.

        [batch, heads, length, size] -> 2 or 3 times [batch, heads, blocks, block, size]; zeros beyond the ends.
        """
        cut = self._blocks(x)
        blocks = ops.shape(cut)[2]
        following = 0 if self.causal else 1
        padded = ops.pad(cut, ((0, 0), (0, 0), (1, following), (0, 0), (0, 0)))
        return [padded[:, :, i : i + blocks] for i in range(2 + following)]

    def start_cache(self, batch: int | Array, beam_size: int, max_length: int | Array) -> Cache:
        """Returns an empty cache for the keys and values of the last r positions."""
        return super().start_cache(batch, beam_size, self.neighborhood_size)

    def grow_cache(self, cache: Cache, beam_size: int, max_length: int | Array) -> Cache:
        """Returns the cache unchanged, because it holds r positions for any length."""
        return cache

    def compact_cache(self, cache: Cache, kept: Array) -> Cache:
        """Returns the cache unchanged, because its entries are found by position."""
        return cache

    def step(self, x: Array, position: int | Array, cache: Cache, ancestry: BeamAncestry) -> tuple[Array, Cache]:
        """Runs one step, see `SelfAttention`. A new position overwrites the one that is now out of reach."""
        beam_size, size = x.shape[1], self.neighborhood_size
        here = ops.reshape(position, (1,))
        queries, keys_values = self.heads(x, here)
        cache = cache.with_entries(position % size * beam_size, *keys_values)
        # The position in each slot; negative for empty slots.
        held = position - (position - ops.arange(size)) % size
        ancestors = ops.take(ancestry.ancestors, ops.maximum(held, 0), axis=2)
        mask = ancestry_mask(ops.where(held >= 0, ancestors, -1))
        return self.attend(queries, cache.keys_values, mask, here, ops.repeat(held, beam_size)), cache
