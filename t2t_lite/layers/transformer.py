"""Encoder and decoder layers (section 3.1 of the paper), put together from the sub-layers that they are given."""

from typing import Any, NamedTuple

import keras

from t2t_lite.layers.beam_ancestry import BeamAncestry
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
      seeds: the random numbers of a training step, see `Dropout`; None otherwise.
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
      padding_mask: bool [batch, 1, 1, length], True = a token, not padding.
      seeds: the random numbers of a training step, see `Dropout`; None otherwise.
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


class Stepping(NamedTuple):
    """What a decoder layer needs besides its input to make one step."""

    position: Any  # int scalar, that of the input
    cache: Any  # as `self_attention.start_cache` and earlier steps gave it
    ancestry: BeamAncestry  # of the hypotheses


class DecoderOutput(NamedTuple):
    """What a decoder layer gives."""

    x: Any  # float, shaped as the input
    cache: Any  # after this step; None if there was none
    attention: Any  # in stepping, how much each hypothesis attends to the source: float32 [batch, heads, beam, source]


class DecoderLayer(keras.layers.Layer):
    """Causal self-attention, or what stands in its place, attention over the encoder's output, feed-forward network.

    The same code trains on whole sequences and steps through one token by token. In stepping, x is the newest position
    of all of a sentence's hypotheses, side by side, and `cache` what the self-attention keeps of all positions so far.

    Args:
      self_attention: a layer as `SelfAttention`, causal.
      cross_attention: a `MultiHeadAttention`.
      feed_forward: a layer as `FeedForward`.
      residuals: the `Residual` of each of them.

    Call arguments:
      x: float [batch, length, hidden]; in stepping [batch, beam, hidden].
      keys_values: of the encoder's output, as `cross_keys_values` returns them, each [batch, heads, source, depth]. All
        hypotheses of a sentence share them.
      source_mask: bool [batch, 1, 1, source], True = a token of the source, not padding.
      stepping: `Stepping`, or None for whole sequences.
      seeds: the random numbers of a training step, see `Dropout`; None otherwise.
    """

    def __init__(self, self_attention, cross_attention, feed_forward, residuals, **kwargs):
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.self_attention_residual, self.cross_attention_residual, self.feed_forward_residual = residuals

    def build(self, input_shape):
        """Makes the weights; the width is the last of `input_shape`."""
        for part in (
            self.self_attention,
            self.self_attention_residual,
            self.cross_attention,
            self.cross_attention_residual,
            self.feed_forward,
            self.feed_forward_residual,
        ):
            part.build(input_shape)

    def cross_keys_values(self, encoded):
        """Projects the encoder's output [batch, source, hidden] to this layer's keys and values."""
        return self.cross_attention.keys_values(encoded)

    def call(self, x, keys_values, source_mask, stepping=None, seeds=None):
        """Returns `DecoderOutput`."""
        x, cache = self.after_self_attention(x, stepping, seeds)
        queries = self.cross_queries(x)
        y = self.cross_attention(queries, keys_values, source_mask, seeds=seeds)
        # Only a search reads the weights; a graph prunes them where nothing does.
        attention = stepping and self.cross_attention.attention_to(queries, keys_values[0], source_mask)
        x = self.cross_attention_residual(x, y, seeds=seeds)
        y = self.feed_forward(self.feed_forward_residual.before(x), seeds=seeds)
        return DecoderOutput(self.feed_forward_residual(x, y, seeds=seeds), cache, attention)

    def after_self_attention(self, x, stepping=None, seeds=None):
        """Returns (the input of cross-attention, float [batch, length, hidden]; the cache after this step or None)."""
        given, cache = self.self_attention_residual.before(x), None
        if stepping is None:
            y = self.self_attention(given, seeds=seeds)
        else:
            y, cache = self.self_attention.step(given, *stepping)
        return self.self_attention_residual(x, y, seeds=seeds), cache

    def cross_queries(self, x):
        """Projects the output of `after_self_attention` to queries, float [batch, heads, length, d_k]."""
        return self.cross_attention.queries(self.cross_attention_residual.before(x))
