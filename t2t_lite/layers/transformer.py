"""Encoder and decoder layers (section 3.1 of the paper), put together from the sub-layers that they are given."""

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.norm import LayerNorm


def make_norm(norm_type, **kwargs):
    """Returns a norm over the channels: "layer" (Ba et al. 2016) or "rms", without mean and offset (Zhang 2019)."""
    kinds = {"layer": LayerNorm, "rms": keras.layers.RMSNormalization}
    return kinds[norm_type](epsilon=1e-6, **kwargs)


class Residual(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))), or with the norm before: x + Dropout(Sublayer(LayerNorm(x))).

    Use: `y = sublayer(residual.before(x))`, then `x = residual(x, y)`.

    Args:
      dropout: rate of the dropout on y.
      norm_position: "post", as in the paper, or "pre" (Xiong et al. 2020, arXiv 2002.04745).
      norm_type: as `make_norm` takes it.

    Call arguments:
      x, y: float [batch, length, hidden], input and output of the sub-layer.
      seeds: `CallSeeds` in training, None otherwise.
    """

    def __init__(self, dropout, norm_position="post", norm_type="layer", **kwargs):
        super().__init__(**kwargs)
        self.norm_position = norm_position
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)
        self.norm = make_norm(norm_type, name="norm", dtype=self.dtype_policy)

    def build(self, input_shape):
        """Makes the norm's weights."""
        self.norm.build(input_shape)

    def before(self, x):
        """Returns what the sub-layer gets, float [batch, length, hidden]."""
        return self.norm(x) if self.norm_position == "pre" else x

    def call(self, x, y, seeds=None):
        """Returns float [batch, length, hidden]."""
        x = x + self.dropout(y, seeds=seeds)
        return self.norm(x) if self.norm_position == "post" else x


class EncoderLayer(keras.layers.Layer):
    """Self-attention, or what stands in its place, and feed-forward network, each with its residual.

    Args:
      self_attention: a layer as `SelfAttention`, not causal.
      feed_forward: a layer as `FeedForward`.
      residuals: the `Residual` of each of them.

    Call arguments:
      x: float [batch, length, hidden].
      padding_mask: bool [batch, 1, 1, length], True = a piece, not padding.
      seeds: `CallSeeds` in training, None otherwise.
    """

    def __init__(self, self_attention, feed_forward, residuals, **kwargs):
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.self_attention_residual, self.feed_forward_residual = residuals

    def build(self, input_shape):
        """Makes the weights; the width is the last of `input_shape`."""
        for part in (self.self_attention, self.self_attention_residual, self.feed_forward, self.feed_forward_residual):
            part.build(input_shape)

    def call(self, x, padding_mask, seeds=None):
        """Returns float [batch, length, hidden]."""
        y = self.self_attention(self.self_attention_residual.before(x), padding_mask, seeds=seeds)
        x = self.self_attention_residual(x, y, seeds=seeds)
        y = self.feed_forward(self.feed_forward_residual.before(x), seeds=seeds)
        return self.feed_forward_residual(x, y, seeds=seeds)


class DecoderLayer(keras.layers.Layer):
    """Causal self-attention, or what stands in its place, attention over the encoder's output, feed-forward network.

    The same code trains on whole sequences and steps through one piece by piece. In stepping, `cache` holds what the
    self-attention keeps of all positions so far, and `x` the one at `position`.

    Args:
      self_attention: a layer as `SelfAttention`, causal.
      memory_attention: a `MultiHeadAttention`.
      feed_forward: a layer as `FeedForward`.
      residuals: the `Residual` of each of them.

    Call arguments:
      x: float [rows, length, hidden]; in stepping length is 1.
      memory: this layer's encoder keys and values, as `memory_of` gives them, each [batch, heads, source, depth].
        Rows may be `beam` times as many as the batch: the beams of a sentence then lie side by side and share
        its memory, which is never copied.
      source_mask: bool [batch, 1, 1, source], True = a piece of the source, not padding.
      cache: as `self_attention.start_cache` and earlier steps gave it, or None.
      position: int scalar, where x belongs; goes with `cache`.
      seeds: `CallSeeds` in training, None otherwise.
    """

    def __init__(self, self_attention, memory_attention, feed_forward, residuals, **kwargs):
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.memory_attention = memory_attention
        self.feed_forward = feed_forward
        self.self_attention_residual, self.memory_attention_residual, self.feed_forward_residual = residuals

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

    def call(self, x, memory, source_mask, cache=None, position=None, seeds=None):
        """Returns (float [rows, length, hidden], the cache after this step, or None if there was none)."""
        given = self.self_attention_residual.before(x)
        if cache is None:
            y = self.self_attention(given, seeds=seeds)
        else:
            y, cache = self.self_attention.step(given, position, cache)
        x = self.self_attention_residual(x, y, seeds=seeds)
        y = self._attend_to_memory(self.memory_attention_residual.before(x), memory, source_mask, seeds)
        x = self.memory_attention_residual(x, y, seeds=seeds)
        y = self.feed_forward(self.feed_forward_residual.before(x), seeds=seeds)
        return self.feed_forward_residual(x, y, seeds=seeds), cache

    def _attend_to_memory(self, x, memory, source_mask, seeds):
        batch = ops.shape(memory[0])[0]
        beams_as_queries = ops.reshape(x, (batch, -1, x.shape[-1]))  # [rows, 1, hidden] -> [batch, beam, hidden]
        queries = self.memory_attention.queries(beams_as_queries)
        y = self.memory_attention(queries, memory, source_mask, seeds=seeds)
        return ops.reshape(y, ops.shape(x))
