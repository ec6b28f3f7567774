"""What training costs: parameters, operations and memory of a step, computed from the settings alone.

Operations are matrix products and convolutions, with two per multiply-add. Element-wise operations (norms, softmax,
dropout, positions) are left out. Masked entries count, because they are computed.

The memory of a step decides how batches are split into micro-batches. It errs on the high side, because running out of
memory ends a run. tests/training/test_cost.py compares parameters and operations with those of the models and their
graphs, tests/training/test_memory.py the memory with the peaks of real training processes.

Code of plug-ins reports its own cost, see `Cost`, or gets an estimate that errs on the high side.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.registry import (
    FEED_FORWARD_TYPES,
    MODELS,
    NORM_TYPES,
    OPTIMIZERS,
    POSITION_ENCODINGS,
    SELF_ATTENTION_TYPES,
    Registry,
)
from t2t_lite.system.tensorflow import import_tensorflow

__all__ = ["Cost", "StepBytes", "choose_max_tokens", "cost_of"]

FLOAT32 = 4
MIB = 2**20
# The backward pass makes two products for each product of the forward pass: one gradient per factor.
_FORWARD_PASSES_OF_A_STEP = 3

# The memory of graphs and kernels, measured on a CPU: of a step without its layers, and of a layer.
_GRAPH_BYTES = 32 * MIB
_GRAPH_BYTES_OF_A_LAYER = 24 * MIB
_BRACKET_DEPTHS = 101  # with open_brackets.MAX_DEPTH, which cannot be imported here because it needs Keras
# The logits, their softmax, and their gradient before and after subtracting the targets. Mixed precision has three of
# these, and 16-bit copies of the logits and the gradient, which take the same memory in total.
_COPIES_OF_LOGITS = 4
# Copies of the largest embedding matrix: its gradients as input and as output matrix, and their sum.
_COPIES_OF_EMBEDDING = 3
# The share of the free memory that a step may use. The rest is for the input pipeline, evaluation, checkpoints and
# other processes.
USABLE_SHARE = 0.8
# Batches of varying shapes fragment the memory; this factor allows for that. The peaks of identical training runs
# differ by up to 9%.
ALLOCATOR_OVERHEAD = 1.3
# float32 arrays as large as the weights: the weights, their gradients and, with micro-batches on several devices, the
# sum of the gradients before and after an addition. Each additional parallel micro-batch adds a copy of the gradients.
# The optimizer's moments (two for Adam) are added to these.
_COPIES_OF_WEIGHTS = 4
_MOMENTS = 2  # for an optimizer that does not declare how many moments it has
# The number of temporary tensors in one layer (gradients, and intermediate results that are not kept), each assumed to
# be as large as the widest tensor.
_TEMPORARY_TENSORS = 10
Number = TypeVar("Number", int, float)


@dataclasses.dataclass(frozen=True)
class StepBytes:
    """The memory of a training step, except weights and their gradients. `+` combines consecutive layers."""

    kept: float = 0.0  # bytes per position that the forward pass keeps for the gradients
    # numbers per position in the largest tensor, from which the memory of temporary tensors is estimated
    widest: float = 0.0
    shared: float = 0.0  # bytes that do not depend on the number of sentences
    graph: float = 0.0  # bytes of the layers' graphs and kernels

    def __add__(self, other: "StepBytes") -> "StepBytes":
        return StepBytes(
            self.kept + other.kept, max(self.widest, other.widest), self.shared + other.shared, self.graph + other.graph
        )


class _Formulas(NamedTuple):
    """The cost of a kind of sub-layer, causal or not, from the settings. Some kinds ignore some arguments."""

    parameters: Callable[[HParams, bool], int]
    products: Callable[[HParams, bool, float], float]  # multiply-adds for a sentence of this length
    step_bytes: Callable[[HParams, bool, int, int], StepBytes]  # of the layer with this number, and of this length


class _Sublayer(NamedTuple):
    """The cost of a sub-layer of one layer: from its `_Formulas`, or from a layer of a plug-in."""

    parameters: int
    products: Callable[[float, float], float]  # multiply-adds for a sentence of this length, with a source of that one
    step_bytes: Callable[[int], StepBytes]


def _size_of(hparams: HParams) -> int:
    """Returns the bytes of a number in the layers' computation."""
    return 2 if hparams.precision.startswith("mixed") else FLOAT32


# Attention.


def _width(hparams: HParams) -> int:
    return hparams.num_heads * (hparams.key_size + hparams.value_size)


def _attention_parameters(hparams: HParams, causal: bool = False) -> int:
    biases = _width(hparams) + hparams.num_heads * hparams.key_size + hparams.hidden_size
    return 2 * hparams.hidden_size * _width(hparams) + (biases if hparams.projection_biases else 0)


def _attention_products(hparams: HParams, queries: float, positions: float) -> float:
    # W^Q and W^O at the queries, W^K and W^V at the positions, scores and weighted sums.
    return (queries + positions) * hparams.hidden_size * _width(hparams) + queries * positions * _width(hparams)


def _bytes_of_weights(hparams: HParams, number: float, dropout: float) -> float:
    """Returns the bytes kept for `number` attention weights: the softmax, and the weights after dropout or a cast."""
    size = _size_of(hparams)
    mixing = 2 * size if dropout else (0 if size == FLOAT32 else size)
    return number * (FLOAT32 + mixing)


def _attention_bytes(hparams: HParams, length: int) -> StepBytes:
    # Queries, keys, values, output and weights.
    number = hparams.num_heads * length
    kept = 2 * _width(hparams) * _size_of(hparams) + _bytes_of_weights(hparams, number, hparams.attention_dropout)
    return StepBytes(kept, widest=number)


def _full_parameters(hparams: HParams, causal: bool) -> int:
    relative = (2 * hparams.max_relative_position + 1) * (hparams.key_size + hparams.value_size)
    return _attention_parameters(hparams) + (relative if hparams.position_encoding == "relative" else 0)


def _full_products(hparams: HParams, causal: bool, length: float) -> float:
    # With relative positions, scores and outputs are two products each.
    relative = length * length * _width(hparams) if hparams.position_encoding == "relative" else 0
    return _attention_products(hparams, length, length) + relative


def _full_bytes(hparams: HParams, causal: bool, index: int, length: int) -> StepBytes:
    of_layer = _attention_bytes(hparams, length) + StepBytes(shared=length**2 * FLOAT32 if causal else 0)
    if hparams.position_encoding != "relative":
        return of_layer
    # Copies of queries and weights, sorted by query, and a vector for each pair.
    copies = hparams.num_heads * (hparams.key_size + length) * _size_of(hparams)
    pairs = length**2 * (hparams.key_size + hparams.value_size) * (_size_of(hparams) + FLOAT32)
    return of_layer + StepBytes(copies, shared=pairs)


def _blocks(hparams: HParams, causal: bool, length: float) -> tuple[float, int]:
    """Returns (the length padded to whole blocks, the number of keys that each position of a block scores)."""
    block = hparams.neighborhood_size if causal else hparams.neighborhood_size // 2
    return math.ceil(length / block) * block, (2 if causal else 3) * block


def _local_products(hparams: HParams, causal: bool, length: float) -> float:
    padded, keys = _blocks(hparams, causal, length)
    return 2 * length * hparams.hidden_size * _width(hparams) + padded * keys * _width(hparams)


def _local_bytes(hparams: HParams, causal: bool, index: int, length: int) -> StepBytes:
    # Blocks of queries, the neighbors' keys and values, and the weights, split by neighbor.
    size, neighbors = _size_of(hparams), 2 if causal else 3
    padded, keys = _blocks(hparams, causal, length)
    blocks = hparams.num_heads * ((1 + neighbors) * hparams.key_size + neighbors * hparams.value_size) * size
    number = hparams.num_heads * keys
    split = number * size * (2 if hparams.attention_dropout else 1)
    weights = _bytes_of_weights(hparams, number, 0.0)
    kept = 2 * _width(hparams) * size + padded / length * (blocks + weights + split)
    # Many small operations make the graph large.
    return StepBytes(kept, hparams.num_heads * 2 * hparams.neighborhood_size, graph=16 * MIB)


# Recurrent layers and convolutions.


def _units(hparams: HParams, causal: bool) -> list[int]:
    half = hparams.hidden_size // 2
    return [hparams.hidden_size] if causal else [half, hparams.hidden_size - half]


def _recurrent_bytes(hparams: HParams, causal: bool, index: int, length: int) -> StepBytes:
    # Gates, candidate, states and their products; the float32 part was measured. A loop adds two graphs: its own and
    # its gradient's.
    return StepBytes(hparams.hidden_size * (8 * _size_of(hparams) + 10 * FLOAT32), graph=32 * MIB)


def _convolution_bytes(hparams: HParams, causal: bool, index: int, length: int) -> StepBytes:
    # The masked input, the padded input, and the output of the depthwise filters.
    reach = (hparams.kernel_size - 1) * hparams.dilation_growth**index
    return StepBytes(3 * hparams.hidden_size * _size_of(hparams) * (1 + reach / length))


def _convolution(weights: Callable[[HParams], int]) -> _Formulas:
    return _Formulas(
        lambda hparams, causal: weights(hparams) + hparams.hidden_size,
        lambda hparams, causal, length: length * weights(hparams),
        _convolution_bytes,
    )


_SELF_ATTENTION = {
    "full": _Formulas(_full_parameters, _full_products, _full_bytes),
    "local": _Formulas(_attention_parameters, _local_products, _local_bytes),
    "recurrent": _Formulas(
        lambda hparams, causal: sum(3 * size * (hparams.hidden_size + 1 + size) for size in _units(hparams, causal)),
        lambda hparams, causal, length: (
            length * sum(3 * size * (hparams.hidden_size + size) for size in _units(hparams, causal))
        ),
        _recurrent_bytes,
    ),
    "convolution": _convolution(lambda hparams: hparams.kernel_size * hparams.hidden_size**2),
    "separable_convolution": _convolution(
        lambda hparams: hparams.kernel_size * hparams.hidden_size + hparams.hidden_size**2
    ),
}


# Feed-forward networks.


def _relu_bytes(hparams: HParams, causal: bool, index: int, length: int) -> StepBytes:
    # The inner layer, for swish also before the activation, and, with dropout, its mask and the result.
    inner = 2 if hparams.feed_forward_type == "swish" else 1
    kept = hparams.filter_size * _size_of(hparams) * (inner + (2 if hparams.relu_dropout else 0))
    return StepBytes(kept, widest=hparams.filter_size)


def _swiglu_bytes(hparams: HParams, causal: bool, index: int, length: int) -> StepBytes:
    # Gate, swish of the gate, linear part, product and, with dropout, its mask and result.
    kept = hparams.filter_size * _size_of(hparams) * (6 if hparams.relu_dropout else 4)
    return StepBytes(kept, widest=2 * hparams.filter_size)


def _parameter_attention_bytes(hparams: HParams, causal: bool, index: int, length: int) -> StepBytes:
    # Queries, output and weights.
    projected = 2 * hparams.parameter_heads * hparams.parameter_head_size
    number = hparams.parameter_heads * hparams.parameter_pairs
    weights = _bytes_of_weights(hparams, number, hparams.attention_dropout)
    return StepBytes(projected * _size_of(hparams) + weights, widest=number)


def _feed_forward(weights: Callable[[HParams], int], biases: bool, step_bytes: Callable[..., StepBytes]) -> _Formulas:
    return _Formulas(
        lambda hparams, causal: weights(hparams) + (hparams.filter_size + hparams.hidden_size if biases else 0),
        lambda hparams, causal, length: length * weights(hparams),
        step_bytes,
    )


def _parameter_weights(hparams: HParams) -> int:
    width = hparams.parameter_heads * hparams.parameter_head_size
    return 2 * (hparams.hidden_size + hparams.parameter_pairs) * width


_TWO_PRODUCTS = _feed_forward(lambda hparams: 2 * hparams.hidden_size * hparams.filter_size, True, _relu_bytes)
_FEED_FORWARD = {
    "relu": _TWO_PRODUCTS,
    "swish": _TWO_PRODUCTS,
    "swiglu": _feed_forward(lambda hparams: 3 * hparams.hidden_size * hparams.filter_size, False, _swiglu_bytes),
    "attention": _feed_forward(_parameter_weights, False, _parameter_attention_bytes),
}
_FORMULAS = {"self_attention": _SELF_ATTENTION, "feed_forward": _FEED_FORWARD}


class _Norm(NamedTuple):
    vectors: int  # of parameters
    kept: int  # vectors kept in float32 at any precision: the normalized input, with "rms" also the input


_NORMS = {"layer": _Norm(2, 1), "rms": _Norm(1, 2)}
_POSITIONS = ("sinusoidal", "sinusoidal_halves", "sinusoidal_halves_from_1", "learned", "relative", "rotary")
_EMBEDDINGS = {"all": (1, 0), "decoder": (1, 1), "none": (2, 1)}  # matrices of the target and the source vocabulary

# For each part of a Transformer, a pattern for the paths of its variables, without the model's name.
PARTS = {
    "embeddings": r"(inputs_|bracket_|depth_)?embedding/(weight|bias)|projection/(weight|bias)",
    "positions": r"(inputs|targets)_positions/weight",
    "encoder self-attention": r"encoder_\d+/self_attention/.*",
    "encoder feed-forward": r"encoder_\d+/feed_forward/.*",
    "decoder self-attention": r"decoder_\d+/self_attention/.*",
    "decoder cross-attention": r"decoder_\d+/cross_attention/.*",
    "decoder feed-forward": r"decoder_\d+/feed_forward/.*",
    "norms": r"(encoder|decoder)_\d+/\w+_residual/norm/\w+|(encoder|decoder)_norm/\w+",
}


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a model, from `cost_of`.

    A layer of a plug-in is asked for its own `flops(length)`, the operations of a forward pass for one sentence, and
    `step_bytes(length)`, a `StepBytes`. A model of a plug-in is asked for its own `parameter_parts()`,
    `step_flops(source_length, target_length)` and `step_bytes(length)`; a subclass of `Transformer` with the same
    computation declares `costs_like_transformer = True` instead. Without these, each weight counts as a multiply-add
    per position, and the estimate of the memory errs on the high side.

    Args:
      hparams: the settings.
      vocab_size: size of the target vocabulary.
      inputs_vocab_size: size of the source vocabulary; None: both sides share one.
      model: the built model if the settings select code of a plug-in; its variables need no values.
    """

    hparams: HParams
    vocab_size: int
    inputs_vocab_size: int | None = None
    model: Any = None

    def parameter_parts(self) -> dict[str, int]:
        """Returns the number of parameters by part: `PARTS` of a Transformer, top-level layers of other models."""
        hparams, model = self.hparams, self.model
        if hasattr(model, "parameter_parts"):
            return model.parameter_parts()
        if model is not None:
            counts = dict.fromkeys(PARTS, 0) if hasattr(model, "costs_like_transformer") else {}
            for variable in model.weights:
                path = variable.path.partition("/")[2]
                part = next((part for part in PARTS if part in counts and re.fullmatch(PARTS[part], path)), None)
                part = part or _top_level_part(variable.path)
                counts[part] = counts.get(part, 0) + math.prod(variable.shape)
            return counts
        of_targets, of_inputs = _EMBEDDINGS[hparams.tied_embeddings]
        brackets = hparams.bracket_labels + 1 + _BRACKET_DEPTHS if hparams.bracket_labels else 0
        vectors = of_targets * self.vocab_size + of_inputs * (self.inputs_vocab_size or self.vocab_size)
        norms = 2 * hparams.num_encoder_layers + 3 * hparams.num_decoder_layers
        norms += 2 if hparams.norm_position == "pre" else 0
        is_learned = hparams.position_encoding == "learned"
        return {
            "embeddings": (vectors + brackets) * hparams.hidden_size + hparams.projection_biases * self.vocab_size,
            "positions": 2 * hparams.max_length * hparams.hidden_size if is_learned else 0,
            **_sums((part, each.parameters) for layer in self._layers() for part, each in layer.items()),
            "norms": norms * _NORMS[hparams.norm_type].vectors * hparams.hidden_size,
        }

    def step_flops(self, source_length: float, target_length: float) -> dict[str, float]:
        """Returns the operations of a training step for a sentence pair, forward and backward, by part of the model.

        Args:
          source_length, target_length: average tokens per sentence, including the end symbol.
        """
        hparams, model = self.hparams, self.model
        if hasattr(model, "step_flops"):
            return model.step_flops(source_length, target_length)
        lengths = {"encoder": source_length, "decoder": target_length}
        if self._is_transformer:
            products = _sums(
                (part, each.products(lengths[part.split()[0]], source_length))
                for layer in self._layers()
                for part, each in layer.items()
            )
        else:
            parts = [(_top_level_part(variable.path), math.prod(variable.shape)) for variable in self._weights()]
            products = _sums((part, lengths.get(part, target_length) * number) for part, number in parts)
        products["logits"] = target_length * hparams.hidden_size * self.vocab_size
        return {part: _FORWARD_PASSES_OF_A_STEP * 2 * number for part, number in products.items()}

    def training_flops(self, source_length: float, target_length: float) -> dict[str, float]:
        """Returns the operations of one optimizer step, by part of the model; see `step_flops`.

        Assumes that all sentences have the given average lengths, and that there is no padding. A step has
        `batch_tokens` target tokens, and source tokens in proportion.
        """
        hparams = self.hparams
        pairs = hparams.batch_tokens / target_length * (2 if hparams.rdrop_alpha else 1)
        return {part: pairs * count for part, count in self.step_flops(source_length, target_length).items()}

    def step_bytes(self, length: int) -> StepBytes:
        """Returns the memory of a training step, except weights, gradients and moments.

        Args:
          length: the number of tokens on each side of every sentence pair.
        """
        from t2t_lite.layers.cross_entropy import largest_chunk

        hparams, model = self.hparams, self.model
        if hasattr(model, "step_bytes"):
            return model.step_bytes(length)
        logits = self.vocab_size * _COPIES_OF_LOGITS * FLOAT32  # of a position
        in_chunks = model is None or model.logits_are_product
        embedding = max(self.vocab_size, self.inputs_vocab_size or 0) * hparams.hidden_size
        shared = embedding * _COPIES_OF_EMBEDDING * FLOAT32
        if in_chunks:
            shared += largest_chunk(hparams.hidden_size) * logits
        total = StepBytes(kept=0.0 if in_chunks else logits, shared=shared, graph=_GRAPH_BYTES)
        if not self._is_transformer:
            return total + _estimated_bytes(self._weights(), hparams, length)
        mask = hparams.hidden_size * _size_of(hparams) if hparams.residual_dropout else 0
        if _is_built_in(NORM_TYPES, hparams.norm_type, _NORMS):
            norm = StepBytes(hparams.hidden_size * (_NORMS[hparams.norm_type].kept * FLOAT32 + _size_of(hparams)))
        else:
            norm = _bytes_of_plug_in(self.model.encoder_layers[0].residuals[0].norm, hparams, length)
        residual = StepBytes(mask, widest=2 * hparams.hidden_size) + norm
        for layer in self._layers():
            parts = [each.step_bytes(length) for each in layer.values()]
            total += sum([*parts, *[residual] * len(parts)], StepBytes(graph=_GRAPH_BYTES_OF_A_LAYER))
        # Positions and dropout on both sides, and the final norms of both stacks, if any, cost about the same as two
        # residuals.
        return total + residual + residual

    @property
    def _is_transformer(self) -> bool:
        # A subclass may compute anything, so the declaration is not inherited.
        return self.model is None or bool(vars(type(self.model)).get("costs_like_transformer"))

    def _layers(self) -> Iterator[dict[str, _Sublayer]]:
        """Yields the sub-layers of each layer of a Transformer, by part of the model."""
        hparams = self.hparams
        cross_attention = _Sublayer(
            _attention_parameters(hparams),
            functools.partial(_attention_products, hparams),
            functools.partial(_attention_bytes, hparams),
        )
        numbers = {"encoder": hparams.num_encoder_layers, "decoder": hparams.num_decoder_layers}
        for side, number in numbers.items():
            layers = getattr(self.model, f"{side}_layers") if self.model is not None else [None] * number
            for index, layer in enumerate(layers):
                chosen = (hparams, side == "decoder", index, layer)
                made = {f"{side} self-attention": _sublayer("self_attention", SELF_ATTENTION_TYPES, *chosen)}
                if side == "decoder":
                    made["decoder cross-attention"] = cross_attention
                yield made | {f"{side} feed-forward": _sublayer("feed_forward", FEED_FORWARD_TYPES, *chosen)}

    def _weights(self) -> list[Any]:
        """Returns the variables of the model, except those with a row for each token."""
        sizes = (self.vocab_size, self.inputs_vocab_size)
        return [each for each in self.model.trainable_variables if each.shape and each.shape[0] not in sizes]


def _sums(numbers: Iterable[tuple[str, Number]]) -> dict[str, Number]:
    totals: dict[str, Number] = {}
    for part, number in numbers:
        totals[part] = totals.get(part, 0) + number
    return totals


def _is_built_in(registry: Registry, name: str, known: Container[str]) -> bool:
    return name in known and registry.source(name) is None


def _sublayer(
    kind: str,
    registry: Registry,
    hparams: HParams,
    causal: bool,
    index: int,
    layer: Any,  # noqa: ANN401  a model's layer
) -> _Sublayer:
    name = getattr(hparams, f"{kind}_type")
    formulas = _FORMULAS[kind]
    if _is_built_in(registry, name, formulas):
        made = formulas[name]
        return _Sublayer(
            made.parameters(hparams, causal),
            lambda length, source_length: made.products(hparams, causal, length),
            lambda length: made.step_bytes(hparams, causal, index, length),
        )
    own = getattr(layer, kind)
    number = sum(math.prod(variable.shape) for variable in own.weights)
    flops = own.flops if hasattr(own, "flops") else lambda length: 2 * length * number
    return _Sublayer(
        number, lambda length, source_length: flops(length) / 2, lambda length: _bytes_of_plug_in(own, hparams, length)
    )


def _bytes_of_plug_in(layer: Any, hparams: HParams, length: int) -> StepBytes:  # noqa: ANN401  a layer of any class
    own = getattr(layer, "step_bytes", None)
    return own(length) if own else _estimated_bytes(layer.trainable_variables, hparams, length)


def _estimated_bytes(variables: Sequence[Any], hparams: HParams, length: int) -> StepBytes:
    """Returns an estimate for layers of which only the variables are known.

    Each of them is taken to turn a vector of d_model numbers into a vector of its own, both of which are kept in
    float32; four matrices to have an attention with dropout to all positions, and a loop.
    """
    hidden, attentions = hparams.hidden_size, sum(len(each.shape) > 1 for each in variables) / 4
    sizes = [math.prod(each.shape) / hidden for each in variables]
    weights = hparams.num_heads * length
    kept = sum(hidden + size for size in sizes) + 3 * attentions * weights
    return StepBytes(
        kept=kept * FLOAT32,
        widest=max(bool(attentions) * weights, hidden, *sizes),
        shared=attentions * length**2 * FLOAT32,
        graph=attentions * _GRAPH_BYTES,
    )


def _top_level_part(path: str) -> str:
    """Returns the top-level layer or variable in a variable's path, without its number: "encoder"."""
    return re.sub(r"(_\d+)+$", "", path.split("/")[1] if "/" in path else path)


def cost_of(hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None) -> Cost:
    """Returns the cost of the model that the settings select.

    It needs no model, unless the settings select code of a plug-in: then the model is built, without values, which
    imports TensorFlow.

    Args:
      hparams: the settings.
      vocab_size: size of the target vocabulary.
      inputs_vocab_size: size of the source vocabulary; None: both sides share one.

    Raises:
      UserError: if the model does not exist.
    """
    chosen = (
        (MODELS, hparams.model, ("transformer",)),
        (SELF_ATTENTION_TYPES, hparams.self_attention_type, _SELF_ATTENTION),
        (FEED_FORWARD_TYPES, hparams.feed_forward_type, _FEED_FORWARD),
        (POSITION_ENCODINGS, hparams.position_encoding, _POSITIONS),
        (NORM_TYPES, hparams.norm_type, _NORMS),
    )
    if all(_is_built_in(*each) for each in chosen):
        return Cost(hparams, vocab_size, inputs_vocab_size)
    import_tensorflow()
    from t2t_lite.models.building import symbolic_model

    model = symbolic_model(hparams, vocab_size, inputs_vocab_size)
    return Cost(model.hparams, vocab_size, inputs_vocab_size, model)


class MemoryEstimate(NamedTuple):
    fixed: float  # bytes that do not depend on the number of sentences
    per_token: float  # bytes per position of the longer side


def estimate_memory(cost: Cost, length: int, num_parallel: int = 1) -> MemoryEstimate:
    """Estimates the memory of a training step with sentences of `length` tokens on both sides.

    `num_parallel` micro-batches are computed at once; `per_token` applies to a position in any of them. The length
    matters, because attention needs more memory per position in longer sentences.
    """
    hparams, step = cost.hparams, cost.step_bytes(length)
    moments = OPTIMIZERS.fact(hparams.optimizer, "moments", _MOMENTS)
    copies = _COPIES_OF_WEIGHTS + (num_parallel - 1) + moments + (hparams.ema_decay > 0.0)
    cast = 0 if hparams.precision == "float32" else 2
    parameters = sum(cost.parameter_parts().values())
    fixed = parameters * (copies * FLOAT32 + cast) + num_parallel * step.shared + step.graph
    passes = 2 if hparams.rdrop_alpha else 1
    temporary = _TEMPORARY_TENSORS * FLOAT32 * step.widest
    return MemoryEstimate(fixed, ALLOCATOR_OVERHEAD * (passes * step.kept + temporary))


def choose_max_tokens(
    hparams: HParams,
    vocab_size: int,
    inputs_vocab_size: int | None,
    free_bytes: int,
    length: int,
    num_parallel: int = 1,
) -> int:
    """Returns how many positions (rows times length of the longer side) a device can hold at once.

    `free_bytes` is the free memory before the model is built; `length` is that of the longest possible sentence.
    `num_parallel` micro-batches share the positions; if the longest sentence does not fit into each of them, the result
    is for a single micro-batch. Without `inputs_vocab_size`, both sides share one vocabulary.
    """
    usable = USABLE_SHARE * free_bytes
    fixed, per_token = estimate_memory(cost_of(hparams, vocab_size, inputs_vocab_size), length, num_parallel)
    tokens = int((usable - fixed) // per_token)
    if num_parallel > 1 and tokens < num_parallel * length:
        return choose_max_tokens(hparams, vocab_size, inputs_vocab_size, free_bytes, length)
    if tokens < length:
        raise UserError(
            f"training on a sentence of {length} tokens takes about {_in_mib(length * per_token)}, plus "
            f"{_in_mib(fixed)} for model and optimizer, but {USABLE_SHARE:.0%} of the {_in_mib(free_bytes)} of free "
            f"memory is only {_in_mib(usable)}; use a smaller max_length or model, or set "
            f"`max_tokens_per_replica={length}` to try it anyway"
        )
    return tokens


def _in_mib(size: float) -> str:
    return f"{math.ceil(size / MIB):,} MiB"


# The paper's estimate from time and devices (table 2).


class Rate(NamedTuple):
    tflops: float  # 10^12 operations per second
    what: str  # the kind of rate
    source: str  # where the rate is published


_PAPER = ("sustained in float32", "the paper, section 6.1")
_TENSOR_CORES = "dense peak in 16 bits with sums in float32"
_MXU = "peak in bfloat16 of a chip"
# Some of these sources also print rates with sparsity, which are twice as high but do not apply to training.
RATES = {
    "K80": Rate(2.8, *_PAPER),
    "K40": Rate(3.7, *_PAPER),
    "M40": Rate(6.0, *_PAPER),
    "P100": Rate(9.5, *_PAPER),
    "V100": Rate(125, _TENSOR_CORES, "data sheet of NVIDIA V100, SXM2"),
    "T4": Rate(65, _TENSOR_CORES, "data sheet of NVIDIA T4"),
    "RTX3090": Rate(71, _TENSOR_CORES, "NVIDIA Ampere GA102 white paper"),
    "A100": Rate(312, _TENSOR_CORES, "data sheet of NVIDIA A100"),
    "RTX4090": Rate(165, _TENSOR_CORES, "NVIDIA Ada white paper"),
    "L4": Rate(121, _TENSOR_CORES, "data sheet of NVIDIA L4"),
    "H100": Rate(989, _TENSOR_CORES, "data sheet of NVIDIA H100, SXM"),
    "TPUv3": Rate(123, _MXU, "cloud.google.com/tpu/docs/v3"),
    "TPUv4": Rate(275, _MXU, "cloud.google.com/tpu/docs/v4"),
    "TPUv5e": Rate(197, _MXU, "cloud.google.com/tpu/docs/v5e"),
}
# The assumed range for the share of the rate that training reaches. The paper's base model reached 29%, big 42%
# (docs/configurations.md).
ASSUMED_UTILISATION = (0.3, 0.5)


def find_rate(device: str) -> Rate | None:
    """Returns a device's rate from `RATES`, or None; ignores blanks, hyphens and letter case in the name."""
    return {_plain(name): rate for name, rate in RATES.items()}.get(_plain(device))


def _plain(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "")


def estimated_flops(seconds: float, devices: int, tflops: float) -> float:
    """Returns the paper's estimate of training cost: seconds times devices times rate (section 6.1).

    `tflops` is the rate that one device sustains, in 10^12 operations per second, for example from `RATES`.
    """
    return seconds * devices * tflops * 1e12
