"""Encoder and decoder layers (section 3.1 of the paper), composed of given sub-layers."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import keras

from t2t_lite.arrays import Array, State
from t2t_lite.errors import UserError
from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.base import Layer, Shape
from t2t_lite.layers.beam_ancestry import BeamAncestry
from t2t_lite.layers.dropout import Dropout, Seeds
from t2t_lite.layers.norm import EPSILON, make_norm
from t2t_lite.layers.ops import add_equal_shapes


@keras.saving.register_keras_serializable(package="t2t_lite")
class Residual(Layer):
    """LayerNorm(x + Dropout(Sublayer(x))) or, with pre-norm, x + Dropout(Sublayer(LayerNorm(x))).

    Usage: `y = sublayer(residual.before(x))`, then `x = residual(x, y)`.

    Args:
      dropout: rate of the dropout on y.
      norm_position: "post", as in the paper, or "pre" (Xiong et al. 2020, arXiv 2002.04745).
      norm_type: one of `NORM_TYPES`.
      norm_epsilon: added to the variance.

    Call arguments:
      x, y: float [batch, length, hidden], input and output of the sub-layer.
      seeds: the random numbers for dropout, see `Dropout`; None: no dropout.

    Example:

    >>> residual = Residual(dropout=0.1)
    >>> x = ops.ones((2, 5, 8))
    >>> ops.shape(residual(x, 2 * residual.before(x)))
    (2, 5, 8)
    """

    def __init__(
        self,
        dropout: float,
        norm_position: str = "post",
        norm_type: str = "layer",
        norm_epsilon: float = EPSILON,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.dropout = dropout
        self.norm_position = norm_position
        self.norm_type = norm_type
        self.norm_epsilon = norm_epsilon
        self._dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)
        self.norm = make_norm(norm_type, norm_epsilon, name="norm", dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        """Creates the norm's weights."""
        self.norm.build(input_shape)

    def before(self, x: Array) -> Array:
        """Returns the input of the sub-layer, float [batch, length, hidden]."""
        self.build_once(x.shape)
        return self.norm(x) if self.norm_position == "pre" else x

    def call(self, x: Array, y: Array, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        x = add_equal_shapes(x, self._dropout(y, seeds=seeds))
        return self.norm(x) if self.norm_position == "post" else x


class SelfAttentionInterface(Protocol):
    """The methods of `SelfAttention` that its replacements also have."""

    def build(self, input_shape: Shape) -> None:
        """Creates the weights."""

    def __call__(self, x: Array, padding_mask: Array | None = None, *, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""

    def start_cache(self, batch: int | Array, beam_size: int, max_length: int | Array) -> State:
        """Returns the cache before the first step."""

    def grow_cache(self, cache: State, beam_size: int, max_length: int | Array) -> State:
        """Returns the cache, enlarged to `max_length` positions."""

    def step(self, x: Array, position: int | Array, cache: State, ancestry: BeamAncestry) -> tuple[Array, State]:
        """Runs one decoding step of a causal layer."""
        ...


@keras.saving.register_keras_serializable(package="t2t_lite")
class EncoderLayer(Layer):
    """Self-attention, or its replacement, and a feed-forward network, each with its residual.

    Args:
      self_attention: a layer with the interface of `SelfAttention`, not causal.
      feed_forward: a layer with the interface of `FeedForward`.
      residuals: one `Residual` for each of them.

    Call arguments:
      x: float [batch, length, hidden].
      padding_mask: bool [batch, 1, 1, length], True = a token, not padding.
      seeds: the random numbers for dropout, see `Dropout`; None: no dropout.

    Example:

    >>> from t2t_lite.layers.feed_forward import FeedForward
    >>> from t2t_lite.layers.self_attention import SelfAttention
    >>> attention, feed_forward = SelfAttention(8, num_heads=2, causal=False), FeedForward(8, filter_size=32)
    >>> layer = EncoderLayer(attention, feed_forward, [Residual(0.1), Residual(0.1)])
    >>> ops.shape(layer(ops.ones((2, 5, 8)), padding_mask=ops.ones((2, 1, 1, 5), "bool")))
    (2, 5, 8)
    """

    def __init__(
        self,
        self_attention: SelfAttentionInterface,
        feed_forward: keras.layers.Layer,
        residuals: Sequence[Residual],
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.self_attention_residual, self.feed_forward_residual = residuals

    @property
    def residuals(self) -> list[Residual]:
        """The residuals of self-attention and the feed-forward network."""
        return [self.self_attention_residual, self.feed_forward_residual]

    def build(self, input_shape: Shape) -> None:
        """Creates the weights; the last dimension of `input_shape` is the width."""
        for part in (self.self_attention, self.feed_forward, *self.residuals):
            part.build(input_shape)

    def call(self, x: Array, padding_mask: Array, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        y = self.self_attention(self.self_attention_residual.before(x), padding_mask, seeds=seeds)
        x = self.self_attention_residual(x, y, seeds=seeds)
        y = self.feed_forward(self.feed_forward_residual.before(x), seeds=seeds)
        return self.feed_forward_residual(x, y, seeds=seeds)


class Stepping(NamedTuple):
    """The arguments of one decoding step of a decoder layer, besides its input."""

    position: int | Array  # int scalar, the position of the input
    cache: State  # from `self_attention.start_cache` or the previous step
    ancestry: BeamAncestry  # of the hypotheses


class DecoderOutput(NamedTuple):
    """The output of a decoder layer."""

    x: Array  # float, of the shape of the input
    cache: State  # after this step; None for whole sequences
    # cross-attention weights of a step, float32 [batch, heads, beam, source]; None for whole sequences
    attention: Array | None


@keras.saving.register_keras_serializable(package="t2t_lite")
class DecoderLayer(Layer):
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
      seeds: the random numbers for dropout, see `Dropout`; None: no dropout.

    Raises:
      UserError: if it is called on the symbolic tensors of a functional model.

    Example:

    >>> from t2t_lite.layers.feed_forward import FeedForward
    >>> from t2t_lite.layers.self_attention import SelfAttention
    >>> attention, feed_forward = SelfAttention(8, num_heads=2, causal=True), FeedForward(8, filter_size=32)
    >>> residuals = [Residual(0.1) for _ in range(3)]
    >>> layer = DecoderLayer(attention, MultiHeadAttention(8, num_heads=2), feed_forward, residuals)
    >>> keys_values = layer.cross_keys_values(ops.ones((2, 5, 8)))
    >>> ops.shape(layer(ops.ones((2, 3, 8)), keys_values, source_mask=ops.ones((2, 1, 1, 5), "bool")).x)
    (2, 3, 8)
    """

    def __init__(
        self,
        self_attention: SelfAttentionInterface,
        cross_attention: MultiHeadAttention,
        feed_forward: keras.layers.Layer,
        residuals: Sequence[Residual],
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.self_attention_residual, self.cross_attention_residual, self.feed_forward_residual = residuals

    @property
    def residuals(self) -> list[Residual]:
        """The residuals of self-attention, cross-attention and the feed-forward network."""
        return [self.self_attention_residual, self.cross_attention_residual, self.feed_forward_residual]

    def __call__(self, *args: object, **kwargs: object) -> DecoderOutput:
        """Rejects symbolic tensors, because outputs of Keras' functional models cannot be None."""
        if any(isinstance(argument, keras.KerasTensor) for argument in keras.tree.flatten((args, kwargs))):
            raise UserError(
                "DecoderLayer does not accept symbolic tensors (keras.Input); call it in the call() of a layer or model"
            )
        return super().__call__(*args, **kwargs)

    def build(self, input_shape: Shape) -> None:
        """Creates the weights; the last dimension of `input_shape` is the width."""
        for part in (self.self_attention, self.cross_attention, self.feed_forward, *self.residuals):
            part.build(input_shape)

    def cross_keys_values(self, encoded: Array) -> tuple[Array, Array]:
        """Projects the encoder's output [batch, source, hidden] to this layer's keys and values."""
        self.build_once((None, None, self.cross_attention.hidden_size))
        return self.cross_attention.keys_values(encoded)

    def call(
        self,
        x: Array,
        keys_values: tuple[Array, Array],
        source_mask: Array,
        stepping: Stepping | None = None,
        seeds: Seeds | None = None,
    ) -> DecoderOutput:
        """Returns `DecoderOutput`."""
        x, cache = self.after_self_attention(x, stepping, seeds)
        queries = self.cross_queries(x)
        y = self.cross_attention(queries, keys_values, source_mask, seeds=seeds)
        # If a search does not read the weights, TensorFlow prunes them from the graph.
        attention = stepping and self.cross_attention.attention_to(queries, keys_values[0], source_mask)
        x = self.cross_attention_residual(x, y, seeds=seeds)
        y = self.feed_forward(self.feed_forward_residual.before(x), seeds=seeds)
        return DecoderOutput(self.feed_forward_residual(x, y, seeds=seeds), cache, attention)

    def after_self_attention(
        self, x: Array, stepping: Stepping | None = None, seeds: Seeds | None = None
    ) -> tuple[Array, State]:
        """Returns (the input of cross-attention, float [batch, length, hidden]; the cache after this step or None)."""
        normed, cache = self.self_attention_residual.before(x), None
        if stepping is None:
            y = self.self_attention(normed, seeds=seeds)
        else:
            y, cache = self.self_attention.step(normed, *stepping)
        return self.self_attention_residual(x, y, seeds=seeds), cache

    def cross_queries(self, x: Array) -> Array:
        """Projects the output of `after_self_attention` to queries, float [batch, heads, length, d_k]."""
        return self.cross_attention.queries(self.cross_attention_residual.before(x))
