"""Encoder and decoder stacks (section 3.1 of the paper): LayerNorm(x + Dropout(Sublayer(x))) around every sub-layer."""

import keras
from keras import ops

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.feed_forward import FeedForward


class Residual(keras.layers.Layer):
    """LayerNorm(x + Dropout(y)): what follows a sub-layer with input x and output y.

    Args:
      dropout: rate of the dropout on y.

    Call arguments:
      x, y: float [batch, length, hidden].
      seeds: `CallSeeds` in training, None otherwise.
    """

    def __init__(self, dropout, **kwargs):
        super().__init__(**kwargs)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.norm = keras.layers.LayerNormalization(epsilon=1e-6, name="norm", dtype=self.dtype_policy)

    def build(self, input_shape):
        """Makes the norm's scale and offset."""
        self.norm.build(input_shape)

    def call(self, x, y, seeds=None):
        """Returns float [batch, length, hidden]."""
        return self.norm(x + self.dropout(y, seeds=seeds))


class EncoderLayer(keras.layers.Layer):
    """Self-attention and feed-forward network.

    Args:
      hidden_size, filter_size, num_heads: d_model, d_ff, h.
      dropout: rate of the residual dropout.

    Call arguments:
      x: float [batch, length, hidden].
      attention_mask: bool [batch, 1, 1, length], True = a piece, not padding.
      seeds: `CallSeeds` in training, None otherwise.
    """

    def __init__(self, hidden_size, filter_size, num_heads, dropout, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.self_attention = MultiHeadAttention(hidden_size, num_heads, name="self_attention", dtype=policy)
        self.self_attention_residual = Residual(dropout, name="self_attention_residual", dtype=policy)
        self.feed_forward = FeedForward(hidden_size, filter_size, name="feed_forward", dtype=policy)
        self.feed_forward_residual = Residual(dropout, name="feed_forward_residual", dtype=policy)

    def build(self, input_shape):
        """Makes the weights; the width is the last of `input_shape`."""
        for part in (self.self_attention, self.self_attention_residual, self.feed_forward, self.feed_forward_residual):
            part.build(input_shape)

    def call(self, x, attention_mask, seeds=None):
        """Returns float [batch, length, hidden]."""
        y = self.self_attention(*self.self_attention.queries_keys_values(x), attention_mask)
        x = self.self_attention_residual(x, y, seeds=seeds)
        return self.feed_forward_residual(x, self.feed_forward(x), seeds=seeds)


class DecoderLayer(keras.layers.Layer):
    """Masked self-attention, attention over the encoder's output, feed-forward network.

    The same code trains on whole sequences and steps through one piece by piece. In stepping, `cache` holds the
    keys and values of all positions so far, and `x` the one at `position`.

    Args:
      hidden_size, filter_size, num_heads: d_model, d_ff, h.
      dropout: rate of the residual dropout.

    Call arguments:
      x: float [rows, length, hidden]; in stepping length is 1.
      attention_mask: bool [1, 1, length, length], or in stepping [1, 1, 1, cache length]; True = may attend.
      memory: this layer's encoder keys and values, as `memory_of` gives them, each [batch, heads, source, depth].
        Rows may be `beam` times as many as the batch: the beams of a sentence then lie side by side and share
        its memory, which is never copied.
      source_mask: bool [batch, 1, 1, source], True = a piece of the source, not padding.
      cache: pair of float [rows, heads, cache length, depth], or None.
      position: int scalar, where in the cache x belongs; goes with `cache`.
      seeds: `CallSeeds` in training, None otherwise.
    """

    def __init__(self, hidden_size, filter_size, num_heads, dropout, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.self_attention = MultiHeadAttention(hidden_size, num_heads, name="self_attention", dtype=policy)
        self.self_attention_residual = Residual(dropout, name="self_attention_residual", dtype=policy)
        self.memory_attention = MultiHeadAttention(hidden_size, num_heads, name="memory_attention", dtype=policy)
        self.memory_attention_residual = Residual(dropout, name="memory_attention_residual", dtype=policy)
        self.feed_forward = FeedForward(hidden_size, filter_size, name="feed_forward", dtype=policy)
        self.feed_forward_residual = Residual(dropout, name="feed_forward_residual", dtype=policy)

    def build(self, input_shape):
        """Makes the weights; the width is the last of `input_shape`."""
        for part in (
            self.self_attention,
            self.self_attention_residual,
            self.memory_attention,
            self.memory_attention_residual,
            self.feed_forward,
            self.feed_forward_residual,
        ):
            part.build(input_shape)

    def memory_of(self, encoded):
        """Projects the encoder's output [batch, source, hidden] to this layer's keys and values."""
        return self.memory_attention.keys_values(encoded)

    def call(self, x, attention_mask, memory, source_mask, cache=None, position=None, seeds=None):
        """Returns (float [rows, length, hidden], (keys, values): those of x, or the cache with them written in)."""
        queries, keys_values = self.self_attention.queries_keys_values(x)
        if cache is not None:
            keys_values = tuple(
                ops.slice_update(old, (0, 0, position, 0), ops.cast(new, old.dtype))
                for old, new in zip(cache, keys_values)
            )
        x = self.self_attention_residual(x, self.self_attention(queries, keys_values, attention_mask), seeds=seeds)
        y = self._attend_to_memory(x, memory, source_mask)
        x = self.memory_attention_residual(x, y, seeds=seeds)
        return self.feed_forward_residual(x, self.feed_forward(x), seeds=seeds), keys_values

    def _attend_to_memory(self, x, memory, source_mask):
        batch = ops.shape(memory[0])[0]
        beams_as_queries = ops.reshape(x, (batch, -1, x.shape[-1]))  # [rows, 1, hidden] -> [batch, beam, hidden]
        y = self.memory_attention(self.memory_attention.queries(beams_as_queries), memory, source_mask)
        return ops.reshape(y, ops.shape(x))
