"""The parameters and operations of the Transformer, computed from the settings alone: without Keras, so at once.

The formulas of operations are those of the layers' `flops`, and those of parameters follow from their `build`. Tests
compare both with the model for every hparam set and every choice of layers.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

from t2t_lite.config import HParams
from t2t_lite.registry import FEED_FORWARD_TYPES, MODELS, NORM_TYPES, POSITION_ENCODINGS, SELF_ATTENTION_TYPES

_BRACKET_DEPTHS = 101  # with open_brackets.MAX_DEPTH, which cannot be imported here because it needs Keras

# The backward pass makes two products for each product of the forward pass: one gradient per factor.
_FORWARD_PASSES_OF_A_STEP = 3


class _SelfAttention(NamedTuple):
    parameters: Callable[[HParams, bool], int]  # of a layer; True: causal
    products: Callable[[HParams, bool, float], float]  # multiply-adds for a sentence of this length


class _FeedForward(NamedTuple):
    parameters: Callable[[HParams], int]  # of a layer
    products: Callable[[HParams], float]  # multiply-adds per position


def _width(hparams: HParams) -> int:
    return hparams.num_heads * (hparams.key_size + hparams.value_size)


def _attention_parameters(hparams: HParams) -> int:
    return 2 * hparams.hidden_size * _width(hparams)


def _attention_products(hparams: HParams, queries: float, positions: float) -> float:
    # W^Q and W^O at the queries, W^K and W^V at the positions, scores and weighted sums.
    return (queries + positions) * hparams.hidden_size * _width(hparams) + queries * positions * _width(hparams)


def _full_parameters(hparams: HParams, causal: bool) -> int:
    relative = (2 * hparams.max_relative_position + 1) * (hparams.key_size + hparams.value_size)
    return _attention_parameters(hparams) + (relative if hparams.position_encoding == "relative" else 0)


def _full_products(hparams: HParams, causal: bool, length: float) -> float:
    relative = length * length * _width(hparams) if hparams.position_encoding == "relative" else 0
    return _attention_products(hparams, length, length) + relative


def _local_products(hparams: HParams, causal: bool, length: float) -> float:
    # Queries are padded to whole blocks, which attend to two or three blocks.
    block = hparams.neighborhood_size if causal else hparams.neighborhood_size // 2
    scores = math.ceil(length / block) * block * (2 if causal else 3) * block * _width(hparams)
    return 2 * length * hparams.hidden_size * _width(hparams) + scores


def _units(hparams: HParams, causal: bool) -> list[int]:
    half = hparams.hidden_size // 2
    return [hparams.hidden_size] if causal else [half, hparams.hidden_size - half]


def _recurrent_parameters(hparams: HParams, causal: bool) -> int:
    return sum(3 * units * (hparams.hidden_size + 1 + units) for units in _units(hparams, causal))


def _recurrent_products(hparams: HParams, causal: bool, length: float) -> float:
    return length * sum(3 * units * (hparams.hidden_size + units) for units in _units(hparams, causal))


def _convolution_weights(hparams: HParams) -> int:
    return hparams.kernel_size * hparams.hidden_size**2


def _separable_weights(hparams: HParams) -> int:
    return hparams.kernel_size * hparams.hidden_size + hparams.hidden_size**2


def _convolution(weights: Callable[[HParams], int]) -> _SelfAttention:
    return _SelfAttention(
        lambda hparams, causal: weights(hparams) + hparams.hidden_size,
        lambda hparams, causal, length: length * weights(hparams),
    )


_SELF_ATTENTION = {
    "full": _SelfAttention(_full_parameters, _full_products),
    "local": _SelfAttention(lambda hparams, causal: _attention_parameters(hparams), _local_products),
    "recurrent": _SelfAttention(_recurrent_parameters, _recurrent_products),
    "convolution": _convolution(_convolution_weights),
    "separable_convolution": _convolution(_separable_weights),
}


def _matrix(hparams: HParams) -> int:
    return hparams.hidden_size * hparams.filter_size


def _parameter_attention(hparams: HParams) -> int:
    width = hparams.parameter_heads * hparams.parameter_head_size
    return 2 * (hparams.hidden_size + hparams.parameter_pairs) * width


_FEED_FORWARD = {
    "relu": _FeedForward(
        lambda hparams: 2 * _matrix(hparams) + hparams.filter_size + hparams.hidden_size,
        lambda hparams: 2 * _matrix(hparams),
    ),
    "swiglu": _FeedForward(lambda hparams: 3 * _matrix(hparams), lambda hparams: 3 * _matrix(hparams)),
    "attention": _FeedForward(_parameter_attention, _parameter_attention),
}
_NORMS = {"layer": 2, "rms": 1}  # vectors of a norm
_POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "relative", "rotary")
_EMBEDDINGS = {"all": (1, 0), "decoder": (1, 1), "none": (2, 1)}  # matrices of the target and the source vocabulary


@dataclasses.dataclass(frozen=True)
class TransformerFormulas:
    """The cost of a `Transformer`. The methods return the same as those of the model; see `have_formulas`.

    Without `inputs_vocab_size`, both sides share one vocabulary.
    """

    hparams: HParams
    vocab_size: int
    inputs_vocab_size: int | None = None

    def parameter_parts(self) -> dict[str, int]:
        hparams = self.hparams
        encoders, decoders = hparams.num_encoder_layers, hparams.num_decoder_layers
        of_targets, of_inputs = _EMBEDDINGS[hparams.tied_embeddings]
        brackets = hparams.bracket_labels + 1 + _BRACKET_DEPTHS if hparams.bracket_labels else 0
        vectors = of_targets * self.vocab_size + of_inputs * (self.inputs_vocab_size or self.vocab_size)
        norms = 2 * encoders + 3 * decoders + (2 if hparams.norm_position == "pre" else 0)
        self_attention = _SELF_ATTENTION[hparams.self_attention_type].parameters
        feed_forward = _FEED_FORWARD[hparams.feed_forward_type].parameters(hparams)
        return {
            "embeddings": (vectors + brackets) * hparams.hidden_size,
            "positions": 2 * hparams.max_length * hparams.hidden_size if hparams.position_encoding == "learned" else 0,
            "encoder self-attention": encoders * self_attention(hparams, False),
            "encoder feed-forward": encoders * feed_forward,
            "decoder self-attention": decoders * self_attention(hparams, True),
            "decoder cross-attention": decoders * _attention_parameters(hparams),
            "decoder feed-forward": decoders * feed_forward,
            "norms": norms * _NORMS[hparams.norm_type] * hparams.hidden_size,
        }

    def step_flops(self, source_length: float, target_length: float) -> dict[str, float]:
        hparams = self.hparams
        encoders, decoders = hparams.num_encoder_layers, hparams.num_decoder_layers
        self_attention = _SELF_ATTENTION[hparams.self_attention_type].products
        feed_forward = _FEED_FORWARD[hparams.feed_forward_type].products(hparams)
        products = {
            "encoder self-attention": encoders * self_attention(hparams, False, source_length),
            "encoder feed-forward": encoders * source_length * feed_forward,
            "decoder self-attention": decoders * self_attention(hparams, True, target_length),
            "decoder cross-attention": decoders * _attention_products(hparams, target_length, source_length),
            "decoder feed-forward": decoders * target_length * feed_forward,
            "logits": target_length * hparams.hidden_size * self.vocab_size,
        }
        return {part: _FORWARD_PASSES_OF_A_STEP * 2 * number for part, number in products.items()}


def have_formulas(hparams: HParams) -> bool:
    """Returns whether `TransformerFormulas` holds for the settings: all code that they select is built in."""
    chosen = (
        (MODELS, hparams.model, ("transformer",)),
        (SELF_ATTENTION_TYPES, hparams.self_attention_type, _SELF_ATTENTION),
        (FEED_FORWARD_TYPES, hparams.feed_forward_type, _FEED_FORWARD),
        (POSITION_ENCODINGS, hparams.position_encoding, _POSITIONS),
        (NORM_TYPES, hparams.norm_type, _NORMS),
    )
    return all(name in known and registry.source(name) is None for registry, name, known in chosen)
