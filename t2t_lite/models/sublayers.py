"""Builds the layers of a Transformer according to the settings."""

import inspect
from collections.abc import Sequence
from typing import Any

import keras

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.layers import positions
from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward, ParameterAttention
from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.recurrent import Recurrent
from t2t_lite.layers.self_attention import RelativeSelfAttention, SelfAttention
from t2t_lite.layers.transformer import DecoderLayer, EncoderLayer, Residual, SelfAttentionInterface
from t2t_lite.registry import REGISTRIES_OF_SETTINGS


def encoder_layer(
    hparams: HParams, index: int, policy: keras.DTypePolicy, causal: bool = False, name: str = "encoder"
) -> EncoderLayer:
    """Returns encoder layer number `index`, counted from 0.

    Args:
      hparams: the settings.
      index: the layer's index.
      policy: the layer's dtype policy.
      causal: whether a position sees only itself and earlier ones, as in a language model.
      name: the prefix of the layer's name.
    """
    return EncoderLayer(
        self_attention(hparams, causal, index, policy),
        feed_forward(hparams, policy),
        _residuals(hparams, policy, "self_attention", "feed_forward"),
        name=f"{name}_{index}",
        dtype=policy,
    )


def decoder_layer(hparams: HParams, index: int, policy: keras.DTypePolicy) -> DecoderLayer:
    """Returns decoder layer number `index`, counted from 0, with a dtype policy."""
    return DecoderLayer(
        self_attention(hparams, True, index, policy),
        MultiHeadAttention(**heads(hparams), name="cross_attention", dtype=policy),
        feed_forward(hparams, policy),
        _residuals(hparams, policy, "self_attention", "cross_attention", "feed_forward"),
        name=f"decoder_{index}",
        dtype=policy,
    )


def self_attention(hparams: HParams, causal: bool, index: int, policy: keras.DTypePolicy) -> SelfAttentionInterface:
    """Returns the self-attention of layer number `index`, or its replacement, one of `SELF_ATTENTION_TYPES`."""
    methods = ("start_cache", "grow_cache", "step") if causal else ()
    return _made("self_attention_type", hparams, "self_attention", policy, causal, index, methods=methods)


def feed_forward(hparams: HParams, policy: keras.DTypePolicy) -> keras.layers.Layer:
    """Returns the feed-forward network or its replacement, one of `FEED_FORWARD_TYPES`."""
    return _made("feed_forward_type", hparams, "feed_forward", policy)


def position_encoding(hparams: HParams, side: str, policy: keras.DTypePolicy) -> positions.PositionEncoding:
    """Returns the position encoding for a side, "inputs" or "targets", one of `POSITION_ENCODINGS`."""
    layer = _made("position_encoding", hparams, f"{side}_positions", policy, methods=("step",))
    if getattr(layer, "max_length", None) is not None and hparams.max_positions is None:
        raise UserError(
            f"position encoding '{hparams.position_encoding}' has a limited number of positions; register it with "
            f"is_limited=True"
        )
    return layer


def _made(
    setting: str,
    hparams: HParams,
    name: str,
    policy: keras.DTypePolicy,
    *arguments: object,
    methods: Sequence[str] = (),
) -> Any:  # noqa: ANN401  a layer of the kind that the registry has
    """Returns the layer `name` that a setting selects. Checks it first, because plug-ins may return anything."""
    registry, entry = REGISTRIES_OF_SETTINGS[setting], getattr(hparams, setting)
    layer = registry[entry](hparams, *arguments, name=name, dtype=policy)
    what = f"{registry.kind} '{entry}'"
    if not isinstance(layer, keras.layers.Layer):
        raise UserError(f"{what} must return a Keras layer, not {type(layer).__name__}")
    if layer.name != name or layer.dtype_policy != policy:
        raise UserError(f"{what} must pass name and dtype (**options) to its layer")
    if missing := [method for method in methods if not hasattr(layer, method)]:
        raise UserError(f"{what}: {type(layer).__name__} has no method {' or '.join(missing)}, which searches need")
    if "seeds" not in inspect.signature(layer.call).parameters and setting != "position_encoding":
        raise UserError(f"{what}: {type(layer).__name__}.call must take `seeds` for dropout")
    return layer


# Registered self-attention types: functions of (hparams, causal, layer number, name and dtype).


def full_attention(hparams: HParams, causal: bool, index: int, **options: Any) -> SelfAttention:
    """Returns attention to all positions, with relative or rotary position encodings if the settings select them."""
    if hparams.position_encoding == "relative":
        distance = hparams.max_relative_position
        return RelativeSelfAttention(causal=causal, max_relative_position=distance, **heads(hparams), **options)
    return SelfAttention(causal=causal, rotary=hparams.position_encoding == "rotary", **heads(hparams), **options)


def local_attention(hparams: HParams, causal: bool, index: int, **options: Any) -> LocalSelfAttention:
    """Returns attention that is restricted to a neighborhood."""
    options |= {"neighborhood_size": hparams.neighborhood_size, "rotary": hparams.position_encoding == "rotary"}
    return LocalSelfAttention(causal=causal, **heads(hparams), **options)


def recurrent(hparams: HParams, causal: bool, index: int, **options: Any) -> Recurrent:
    """Returns gated recurrent units."""
    return Recurrent(hparams.hidden_size, causal=causal, **options)


def convolution(hparams: HParams, causal: bool, index: int, separable: bool = False, **options: Any) -> Convolution:
    """Returns a convolution; the dilation grows with the layer number."""
    options |= {"kernel_size": hparams.kernel_size, "dilation": hparams.dilation_growth**index}
    return Convolution(hparams.hidden_size, causal=causal, separable=separable, **options)


def separable_convolution(hparams: HParams, causal: bool, index: int, **options: Any) -> Convolution:
    """Returns a separable convolution, see `convolution`."""
    return convolution(hparams, causal, index, separable=True, **options)


# Registered feed-forward types: functions of (hparams, name and dtype).


def relu(hparams: HParams, **options: Any) -> FeedForward:
    """Returns the paper's feed-forward network."""
    return FeedForward(hparams.hidden_size, hparams.filter_size, hparams.relu_dropout, **options)


def swish(hparams: HParams, **options: Any) -> FeedForward:
    """Returns the paper's feed-forward network with swish in place of ReLU."""
    return relu(hparams, activation="silu", **options)


def swiglu(hparams: HParams, **options: Any) -> GatedFeedForward:
    """Returns a gated feed-forward network."""
    return GatedFeedForward(hparams.hidden_size, hparams.filter_size, hparams.relu_dropout, **options)


def parameter_attention(hparams: HParams, **options: Any) -> ParameterAttention:
    """Returns attention over parameters."""
    pairs = (hparams.parameter_heads, hparams.parameter_head_size, hparams.parameter_pairs)
    return ParameterAttention(hparams.hidden_size, *pairs, dropout=hparams.attention_dropout, **options)


# Registered position encodings: functions of (hparams, name and dtype).


def sinusoidal(hparams: HParams, **options: Any) -> positions.PositionEncoding:
    """Returns the paper's encoding."""
    return positions.SinusoidalPositions(hparams.hidden_size, **options)


def sinusoidal_halves(hparams: HParams, **options: Any) -> positions.PositionEncoding:
    """Returns tensor2tensor's encoding."""
    return positions.SinusoidalHalves(hparams.hidden_size, **options)


def sinusoidal_halves_from_1(hparams: HParams, **options: Any) -> positions.PositionEncoding:
    """Returns OpenNMT-tf's encoding."""
    return sinusoidal_halves(hparams, first=1, **options)


def learned_positions(hparams: HParams, **options: Any) -> positions.PositionEncoding:
    """Returns a trainable vector for each of max_length positions."""
    return positions.LearnedPositions(hparams.max_length, hparams.hidden_size, **options)


def no_positions(hparams: HParams, **options: Any) -> positions.PositionEncoding:
    """Returns an encoding that adds nothing, because positions are part of attention."""
    return positions.NoPositions(hparams.hidden_size, **options)


def heads(hparams: HParams) -> dict[str, Any]:
    """Returns the arguments of `MultiHeadAttention` from the settings."""
    return {
        "hidden_size": hparams.hidden_size,
        "num_heads": hparams.num_heads,
        "key_size": hparams.key_size,
        "value_size": hparams.value_size,
        "dropout": hparams.attention_dropout,
        "use_bias": hparams.projection_biases,
    }


def _residuals(hparams: HParams, policy: keras.DTypePolicy, *sublayers: str) -> list[Residual]:
    how = (hparams.residual_dropout, hparams.norm_position, hparams.norm_type, hparams.norm_epsilon)
    return [Residual(*how, name=f"{sublayer}_residual", dtype=policy) for sublayer in sublayers]
