"""Self-attention restricted to a neighborhood (section 4 and table 1 of the paper), in O(r n d): by blocks."""

from keras import ops

from t2t_lite.layers.attention import attend
from t2t_lite.layers.self_attention import SelfAttention, written_into


class LocalSelfAttention(SelfAttention):
    """A position attends to r / 2 positions before it, itself, and r / 2 after it; if causal to the last r, itself one.

    Queries are cut into blocks, each of which attends to the keys of its own and the neighbouring blocks, as far as the
    neighborhood reaches: work and memory grow with the length and not with its square.

    Args:
      neighborhood_size: r, even.
      others: as `SelfAttention` takes them.
    """

    def __init__(self, hidden_size, num_heads, causal, neighborhood_size, **kwargs):
        super().__init__(hidden_size, num_heads, causal, **kwargs)
        self.neighborhood_size = neighborhood_size
        self.before = neighborhood_size - 1 if causal else neighborhood_size // 2
        self.after = 0 if causal else neighborhood_size // 2
        self.block = neighborhood_size if causal else neighborhood_size // 2

    def call(self, x, padding_mask=None, seeds=None):
        """Returns float [batch, length, hidden]."""
        length = ops.shape(x)[1]
        queries, keys_values = self.heads(x, ops.arange(length))
        if padding_mask is None:
            padding_mask = ops.ones((1, 1, 1, length), "bool")
        return self.join(self.attend_in_blocks(queries, *keys_values, padding_mask, seeds))

    def attend_in_blocks(self, queries, keys, values, padding_mask, seeds=None):
        """Mixes the values of each position's neighborhood: `attend` in O(r n d).

        Args:
          queries, keys, values: float [batch, heads, length, size], as `heads` gives them.
          padding_mask: bool [batch, 1, 1, length], True = a piece and not padding.
          seeds: `CallSeeds` in training, None otherwise.

        Returns:
          float [batch, heads, length, d_v].
        """
        visible = self._neighbors(ops.swapaxes(padding_mask, 2, 3))  # [batch, 1, blocks, keys, 1]
        mixed, _ = attend(
            self._blocks(queries),
            self._neighbors(keys),
            self._neighbors(values),
            ops.logical_and(ops.swapaxes(visible, -1, -2), self._reach()),
            lambda weights: self.dropout(weights, seeds=seeds),
        )  # [batch, heads, blocks, block, d_v]
        batch, heads, blocks, block, size = ops.shape(mixed)
        return ops.reshape(mixed, (batch, heads, blocks * block, size))[:, :, : ops.shape(queries)[2]]

    def _blocks(self, x):
        """Cuts [batch, heads, length, size] into [batch, heads, blocks, block, size], filled up with zeros."""
        batch, heads, length, size = ops.shape(x)
        blocks = (length + self.block - 1) // self.block
        padded = ops.pad(x, ((0, 0), (0, 0), (0, blocks * self.block - length), (0, 0)))
        return ops.reshape(padded, (batch, heads, blocks, self.block, size))

    def _neighbors(self, x):
        """Returns the block before each block, itself and, if not causal, the one after it, side by side.

        [batch, heads, length, size] -> [batch, heads, blocks, 2 or 3 * block, size]; zeros beyond the ends.
        """
        cut = self._blocks(x)
        blocks = ops.shape(cut)[2]
        following = 0 if self.causal else 1
        padded = ops.pad(cut, ((0, 0), (0, 0), (1, following), (0, 0), (0, 0)))
        return ops.concatenate([padded[:, :, i : i + blocks] for i in range(2 + following)], axis=3)

    def _reach(self):
        """Returns which of a block's neighbors each of its positions may see, bool [block, 2 or 3 * block]."""
        keys = ops.arange((2 if self.causal else 3) * self.block) - self.block  # 0 is the block's first position
        distances = keys[None, :] - ops.arange(self.block)[:, None]
        return ops.logical_and(distances >= -self.before, distances <= self.after)

    def start_cache(self, rows, max_length):
        """Returns room for the keys and values of the last r positions: float [rows, heads, r, size]."""
        return super().start_cache(rows, self.neighborhood_size)

    def step(self, x, position, cache):
        """Makes one step, see `SelfAttention`; a position takes the place of the one that went out of reach."""
        positions = ops.reshape(position, (1,))
        queries, keys_values = self.heads(x, positions)
        cache = written_into(cache, position % self.neighborhood_size, keys_values)
        # Before the places have all been taken once, those after `position` are empty.
        mask = (ops.arange(self.neighborhood_size) <= position)[None, None, None, :]
        return self.mix(queries, cache, mask, positions), cache
