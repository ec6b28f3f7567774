"""Builds the layers of a Transformer that the settings choose."""

from typing import Any

import keras

from t2t_lite.config import HParams
from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward
from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.parameter_attention import ParameterAttention
from t2t_lite.layers.recurrent import Recurrent
from t2t_lite.layers.self_attention import RelativeSelfAttention, SelfAttention
from t2t_lite.layers.transformer import DecoderLayer, EncoderLayer, Residual, SelfAttentionInterface


def encoder_layer(hparams: HParams, index: int, policy: keras.DTypePolicy) -> EncoderLayer:
    """Returns encoder layer number `index`, counted from 0; `policy` is its dtype policy."""
    return EncoderLayer(
        self_attention(hparams, False, index, policy),
        feed_forward(hparams, policy),
        _residuals(hparams, policy, "self_attention", "feed_forward"),
        name=f"encoder_{index}",
        dtype=policy,
    )


def decoder_layer(hparams: HParams, index: int, policy: keras.DTypePolicy) -> DecoderLayer:
    """Returns decoder layer number `index`, counted from 0; `policy` is its dtype policy."""
    return DecoderLayer(
        self_attention(hparams, True, index, policy),
        MultiHeadAttention(**_heads(hparams), name="cross_attention", dtype=policy),
        feed_forward(hparams, policy),
        _residuals(hparams, policy, "self_attention", "cross_attention", "feed_forward"),
        name=f"decoder_{index}",
        dtype=policy,
    )


def self_attention(hparams: HParams, causal: bool, index: int, policy: keras.DTypePolicy) -> SelfAttentionInterface:
    """Returns the self-attention or its replacement (`self_attention_type`)."""
    kind = hparams.self_attention_type
    common: dict[str, Any] = {"causal": causal, "name": "self_attention", "dtype": policy}
    if kind == "recurrent":
        return Recurrent(hparams.hidden_size, **common)
    if kind in ("convolution", "separable_convolution"):
        return Convolution(
            hparams.hidden_size,
            kernel_size=hparams.kernel_size,
            separable=kind == "separable_convolution",
            dilation=hparams.dilation_growth**index,
            **common,
        )
    heads = _heads(hparams) | common
    if hparams.position_encoding == "relative":
        return RelativeSelfAttention(max_relative_position=hparams.max_relative_position, **heads)
    heads["rotary"] = hparams.position_encoding == "rotary"
    if kind == "local":
        return LocalSelfAttention(neighborhood_size=hparams.neighborhood_size, **heads)
    return SelfAttention(**heads)


def feed_forward(hparams: HParams, policy: keras.DTypePolicy) -> keras.layers.Layer:
    """Returns the feed-forward network or its replacement (`feed_forward_type`)."""
    common: dict[str, Any] = {"name": "feed_forward", "dtype": policy}
    if hparams.feed_forward_type == "attention":
        pairs = (hparams.parameter_heads, hparams.parameter_head_size, hparams.parameter_pairs)
        return ParameterAttention(hparams.hidden_size, *pairs, dropout=hparams.attention_dropout, **common)
    kind = {"relu": FeedForward, "swiglu": GatedFeedForward}[hparams.feed_forward_type]
    return kind(hparams.hidden_size, hparams.filter_size, hparams.relu_dropout, **common)


def _heads(hparams: HParams) -> dict[str, Any]:
    return {
        "hidden_size": hparams.hidden_size,
        "num_heads": hparams.num_heads,
        "key_size": hparams.key_size,
        "value_size": hparams.value_size,
        "dropout": hparams.attention_dropout,
    }


def _residuals(hparams: HParams, policy: keras.DTypePolicy, *sublayers: str) -> list[Residual]:
    how = (hparams.residual_dropout, hparams.norm_position, hparams.norm_type)
    return [Residual(*how, name=f"{sublayer}_residual", dtype=policy) for sublayer in sublayers]
