"""Converts Transformers to CTranslate2 models. A UserError names any part that CTranslate2 does not support."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.config import HParams
from t2t_lite.data.vocab import EOS_ID, PAD_ID, UNKNOWN_ID
from t2t_lite.errors import UserError
from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.feed_forward import GatedFeedForward
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.transformer import Transformer

# A part of CTranslate2's model specification, and one of our layers. Neither package has types for them.
_Spec: TypeAlias = Any
_Layer: TypeAlias = Any
# The number of position vectors in an export. Longer inputs are truncated with a warning.
POSITIONS = 2048
# The largest int8 weight. Processors without VNNI add two products of a weight and an activation (at most 255) in 16
# bits, and 2 * 255 * 64 does not overflow. Weights up to 127 can overflow, which changes the outputs of small models.
_LARGEST_INT8 = 64
# Position encodings that are part of attention and have no vectors.
_WITHOUT_VECTORS = ("relative", "rotary")
# The values that CTranslate2 supports for each setting.
_SUPPORTED = {
    "self_attention_type": ("full",),
    "feed_forward_type": ("relu", "swish", "swiglu"),
    "norm_type": ("layer", "rms"),
    "position_encoding": ("sinusoidal", "sinusoidal_halves", "sinusoidal_halves_from_1", "learned", *_WITHOUT_VECTORS),
}


def check_supported(model: Seq2SeqModel) -> None:
    hparams = model.hparams
    if type(model) is not Transformer:
        raise _unsupported(f"the model {hparams.model} ({type(model).__name__})", "the model transformer")
    for name, values in _SUPPORTED.items():
        if (value := getattr(hparams, name)) not in values:
            raise _unsupported(f"{name}={value}", " or ".join(values))
    if hparams.hidden_size % hparams.num_heads:
        raise _unsupported(
            f"{hparams.num_heads} heads with a hidden_size of {hparams.hidden_size}",
            "a number of heads that divides it",
        )
    for name, size in (("attention_key_size", hparams.key_size), ("attention_value_size", hparams.value_size)):
        if size > (room := hparams.hidden_size // hparams.num_heads):
            raise _unsupported(f"{name}={size}", f"at most hidden_size / num_heads = {room}")
    if hparams.position_encoding == "rotary" and hparams.key_size != hparams.hidden_size // hparams.num_heads:
        raise _unsupported("rotary positions with attention_key_size", "keys of hidden_size / num_heads")


def _unsupported(what: str, instead: str) -> UserError:
    return UserError(f"CTranslate2 has no equivalent of {what}, only of {instead}; export with --format=saved_model")


def write(
    model: Seq2SeqModel,
    tokens: Sequence[str],
    inputs_tokens: Sequence[str],
    folder: Path,
    quantization: str | None,
    unknown_id: int | None = UNKNOWN_ID,
    add_source_eos: bool = False,
) -> None:
    """Writes a model into an existing folder: model.bin, config.json and the token lists.

    Args:
      model: a built `Transformer` with its weights.
      tokens, inputs_tokens: the token names of targets and inputs, by id.
      quantization: "int8", "int16", "float16" or "bfloat16"; None: float32.
      unknown_id: the id of the targets' unknown token; None: it has none, and searches allow any token.
      add_source_eos: whether CTranslate2 appends the end symbol to inputs; our engine does that itself.
    """
    from ctranslate2.specs import TransformerSpec

    check_supported(model)
    for names in (tokens, inputs_tokens):
        # CTranslate2 identifies tokens by name only.
        if twice := {token for token in names[:3] if list(names).count(token) > 1}:
            raise _unsupported(
                f"a vocabulary with the word {min(twice)}, which is also the name of a symbol", "other words"
            )
    assert isinstance(model, Transformer)
    spec: _Spec = TransformerSpec(_encoder(model), _decoder(model))
    spec.register_source_vocabulary(list(inputs_tokens))
    spec.register_target_vocabulary(list(tokens))
    spec.config.decoder_start_token = spec.config.bos_token = tokens[PAD_ID]
    spec.config.eos_token, spec.config.unk_token = tokens[EOS_ID], tokens[unknown_id or UNKNOWN_ID]
    spec.config.add_source_eos = add_source_eos
    spec.config.layer_norm_epsilon = model.encoder_layers[0].self_attention_residual.norm.epsilon
    spec.validate()
    if quantization in ("int8", "bfloat16"):
        spec.optimize("float32")
        _round_weights(spec, quantization)
    else:
        spec.optimize(quantization or "float32")
    spec.save(str(folder))


def _round_weights(spec: _Spec, quantization: str) -> None:
    """Rounds the weights of a validated specification to int8, with a scale for each row of a matrix, or to bfloat16.

    CTranslate2's own conversion to int8 uses the full range -127 to 127, and that to bfloat16 needs PyTorch.
    """
    from ctranslate2.specs.model_spec import NumpyVariable, visit_spec

    def convert(spec: _Spec, name: str, value: Any) -> None:  # noqa: ANN401
        scale = f"{name.rpartition('/')[2]}_scale"
        if not isinstance(value, NumpyVariable):
            return
        if quantization == "bfloat16":
            if value.dtype == "float32" and not value.is_scalar():
                value.array = value.array.astype(tf.bfloat16.as_numpy_dtype)
        elif hasattr(spec, scale):
            largest = np.abs(value.array).max(axis=1)
            scales = _LARGEST_INT8 / np.where(largest > 0, largest, 1).astype(np.float32)
            value.array = np.rint(value.array * scales[:, None]).astype(np.int8)
            setattr(spec, scale, NumpyVariable(scales))

    visit_spec(spec, convert)


def _options(hparams: HParams) -> dict[str, Any]:
    from ctranslate2.specs.common_spec import Activation

    rotary = {"rotary_dim": 0, "rotary_interleave": False} if hparams.position_encoding == "rotary" else {}
    return {
        "num_heads": hparams.num_heads,
        "pre_norm": hparams.norm_position == "pre",
        "activation": Activation.RELU if hparams.feed_forward_type == "relu" else Activation.SWISH,
        "ffn_glu": hparams.feed_forward_type == "swiglu",
        "rms_norm": hparams.norm_type == "rms",
        "relative_position": hparams.position_encoding == "relative",
        **rotary,
    }


def _encoder(model: Transformer) -> _Spec:
    from ctranslate2.specs.transformer_spec import TransformerEncoderSpec

    spec: _Spec = TransformerEncoderSpec(model.hparams.num_encoder_layers, **_options(model.hparams))
    spec.embeddings[0].weight = _array(model.inputs_embedding.weight)
    _set_layers(spec, model, "encoder", model.encoder_layers, model.position_encodings["inputs"])
    return spec


def _decoder(model: Transformer) -> _Spec:
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec

    layers = model.hparams.num_decoder_layers
    # alignment_heads=0 selects all heads, because our own alignments use the mean over all heads.
    alignment = {"alignment_layer": model.alignment_layer, "alignment_heads": 0}
    spec: _Spec = TransformerDecoderSpec(layers, **alignment, **_options(model.hparams))
    spec.embeddings.weight = _array(model.embedding.weight)
    spec.projection.weight = _array(model.projection.weight)
    if model.projection.use_bias:
        spec.projection.bias = _array(model.projection.bias)
    spec.start_from_zero_embedding = model.hparams.zero_padding_embedding
    _set_layers(spec, model, "decoder", model.decoder_layers, model.position_encodings["targets"])
    for into, layer in zip(spec.layer, model.decoder_layers, strict=True):
        _set_linear(into.attention.linear, layer.cross_attention, (("query",), ("key", "value"), ("output",)))
        _set_norm(into.attention.layer_norm, layer.cross_attention_residual.norm)
    return spec


def _set_layers(spec: _Spec, model: Transformer, stack: str, layers: Sequence[_Layer], positions: _Layer) -> None:
    """Sets what encoder and decoder share: positions, self-attention, feed-forward networks and norms."""
    spec.scale_embeddings = model.hparams.scaled_embeddings
    if model.hparams.position_encoding not in _WITHOUT_VECTORS:
        zeros = keras.ops.zeros((1, model.max_positions or POSITIONS, model.hparams.hidden_size))
        # Scoring a truncated output also needs a position for the end symbol. The value of its vector does not matter.
        spec.position_encodings.encodings = np.pad(_array(positions(zeros))[0], [(0, 1), (0, 0)])
    for into, layer in zip(spec.layer, layers, strict=True):
        attention, to_attention = layer.self_attention, into.self_attention
        _set_linear(to_attention.linear, attention, (("query", "key", "value"), ("output",)))
        if hasattr(attention, "relative_keys"):
            room = attention.hidden_size // attention.num_heads
            to_attention.relative_position_keys = _widened(_array(attention.relative_keys), room)
            to_attention.relative_position_values = _widened(_array(attention.relative_values), room)
        _set_norm(to_attention.layer_norm, layer.self_attention_residual.norm)
        network, first, second = layer.feed_forward, into.ffn.linear_0, into.ffn.linear_1
        expand, second.weight = _array(network.expand.kernel).T, _array(network.project.kernel).T
        if isinstance(network, GatedFeedForward):
            first.weight, into.ffn.linear_0_noact.weight = np.split(expand, 2)
        else:
            first.weight, first.bias, second.bias = expand, _array(network.expand.bias), _array(network.project.bias)
        _set_norm(into.ffn.layer_norm, layer.feed_forward_residual.norm)
    if model.final_norms:
        _set_norm(spec.layer_norm, model.final_norms[stack])


def _set_linear(into: Sequence[_Spec], layer: MultiHeadAttention, names: Sequence[Sequence[str]]) -> None:
    """Sets the projections of attention, several in one matrix [out, in], with a head size of hidden_size / num_heads.

    CTranslate2 supports no other head size. Smaller heads are padded with zero channels, which change no product.
    """
    room = layer.hidden_size // layer.num_heads
    # CTranslate2 divides the queries by the square root of its own head size.
    scales = {"query": np.float32((room / layer.key_size) ** 0.5)}

    def by_head(weight: Array, name: str) -> np.ndarray:
        size = layer.value_size if name == "value" else layer.key_size
        heads = _array(weight).reshape(-1, layer.num_heads, size)
        return _widened(heads, room).reshape(len(heads), -1).T * scales.get(name, np.float32(1))

    for linear, of_linear in zip(into, names, strict=True):
        if of_linear == ("output",):
            output = _array(layer.output_projection).T.reshape(layer.hidden_size, layer.num_heads, layer.value_size)
            linear.weight = _widened(output, room).reshape(layer.hidden_size, -1)
        else:
            linear.weight = np.concatenate([by_head(getattr(layer, name), name) for name in of_linear])
        if layer.use_bias:
            biases = [by_head(layer.biases[name], name)[:, 0] for name in of_linear if name != "output"]
            linear.bias = np.concatenate(biases or [_array(layer.biases["output"])])


def _widened(array: np.ndarray, size: int) -> np.ndarray:
    """Pads the last dimension with zeros to `size`."""
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, size - array.shape[-1])])


def _set_norm(spec: _Spec, norm: _Layer) -> None:
    if hasattr(norm, "scale"):
        spec.gamma = _array(norm.scale)
    else:
        spec.gamma, spec.beta = _array(norm.gamma), _array(norm.beta)


def _array(value: Array) -> np.ndarray:
    return np.ascontiguousarray(keras.ops.convert_to_numpy(value), np.float32)
