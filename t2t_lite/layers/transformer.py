"""Encoder and decoder layers (section 3.1 of the paper), composed of given sub-layers."""

from typing import Any, NamedTuple

import keras

from t2t_lite.layers.beam_ancestry import BeamAncestry
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.norm import LayerNorm


def make_norm(norm_type, **kwargs):
    """Returns a norm over the channels: "layer" (Ba et al. 2016), or "rms" without mean and offset (Zhang 2019)."""
    kinds = {"layer": LayerNorm, "rms": keras.layers.RMSNormalization}
    return kinds[norm_type](epsilon=1e-6, **kwargs)


class Residual(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))), or with pre-norm x + Dropout(Sublayer(LayerNorm(x))).

    Usage: `y = sublayer(residual.before(x))`, then `x = residual(x, y)`.

    Args:
      dropout: rate of the dropout on y.
      norm_position: "post", as in the paper, or "pre" (Xiong et al. 2020, arXiv 2002.04745).
      norm_type: see `make_norm`.

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
        """Creates the norm's weights."""
        self.norm.build(input_shape)

    def before(self, x):
        """Returns the input of the sub-layer, float [batch, length, hidden]."""
        return self.norm(x) if self.norm_position == "pre" else x

    def call(self, x, y, seeds=None):
        """Returns float [batch, length, hidden]."""
        x = x + self.dropout(y, seeds=seeds)
        return self.norm(x) if self.norm_position == "post" else x


class EncoderLayer(keras.layers.Layer):
    """Self-attention, or its replacement, and a feed-forward network, each with its residual.

    Args:
      self_attention: a layer with the interface of `SelfAttention`, not causal.
      feed_forward: a layer with the interface of `FeedForward`.
      residuals: one `Residual` for each of them.

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
        """Creates the weights; the last dimension of `input_shape` is the width."""
        for part in (self.self_attention, self.self_attention_residual, self.feed_forward, self.feed_forward_residual):
            part.build(input_shape)

    def call(self, x, padding_mask, seeds=None):
        """Returns float [batch, length, hidden]."""
        y = self.self_attention(self.self_attention_residual.before(x), padding_mask, seeds=seeds)
        x = self.self_attention_residual(x, y, seeds=seeds)
        y = self.feed_forward(self.feed_forward_residual.before(x), seeds=seeds)
        return self.feed_forward_residual(x, y, seeds=seeds)


class Stepping(NamedTuple):
    """The arguments of one decoding step of a decoder layer, besides its input."""

    position: Any  # int scalar, the position of the input
    cache: Any  # from `self_attention.start_cache` or the previous step
    ancestry: BeamAncestry  # of the hypotheses


class DecoderOutput(NamedTuple):
    """The output of a decoder layer."""

    x: Any  # float, of the shape of the input
    cache: Any  # after this step; None for whole sequences
    attention: Any  # cross-attention weights of a step, float32 [batch, heads, beam, source]; None for whole sequences


class DecoderLayer(keras.layers.Layer):
    """Causal self-attention, or its replacement, cross-attention to the encoder's output, and a feed-forward network.

    The same code runs on whole sequences in training and on single positions in decoding. In a decoding step, x is the
    newest position of all hypotheses of each sentence, and the cache holds the earlier positions.

    Args:
      self_attention: a layer with the interface of `SelfAttention`, causal.
      cross_attention: a `MultiHeadAttention`.
      feed_forward: a layer with the interface of `FeedForward`.
      residuals: one `Residual` for each of them.

    Call arguments:
      x: float [batch, length, hidden]; in a decoding step [batch, beam, hidden].
      keys_values: keys and values of the encoder's output, from `cross_keys_values`, each [batch, heads, source,
        depth]. All hypotheses of a sentence share them.
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
        """Creates the weights; the last dimension of `input_shape` is the width."""
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
        # Only a search reads the weights; otherwise the graph prunes them.
        attention = stepping and self.cross_attention.attention_to(queries, keys_values[0], source_mask)
        x = self.cross_attention_residual(x, y, seeds=seeds)
        y = self.feed_forward(self.feed_forward_residual.before(x), seeds=seeds)
        return DecoderOutput(self.feed_forward_residual(x, y, seeds=seeds), cache, attention)

    def after_self_attention(self, x, stepping=None, seeds=None):
        """Returns (the input of cross-attention, float [batch, length, hidden]; the cache after this step or None)."""
        normed, cache = self.self_attention_residual.before(x), None
        if stepping is None:
            y = self.self_attention(normed, seeds=seeds)
        else:
            y, cache = self.self_attention.step(normed, *stepping)
        return self.self_attention_residual(x, y, seeds=seeds), cache

    def cross_queries(self, x):
        """Projects the output of `after_self_attention` to queries, float [batch, heads, length, d_k]."""
        return self.cross_attention.queries(self.cross_attention_residual.before(x))
