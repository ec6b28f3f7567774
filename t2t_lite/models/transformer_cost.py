"""The cost of a Transformer: parameters by part, and the operations and memory of a training step."""

import math
import re
from typing import Any, TypeAlias

from t2t_lite.layers.cost import FLOAT32, FORWARD_PASSES_OF_A_STEP, GRAPH_BYTES, StepBytes, has_formulas
from t2t_lite.layers.cross_entropy import COPIES_OF_LOGITS, chunk_bytes
from t2t_lite.models.base import top_level_part

Model: TypeAlias = Any  # a `Transformer`, whose module imports this one
# For each part, a pattern for the paths of its variables, without the model's name.
PARTS = {
    "embeddings": r"(inputs_|bracket_|depth_)?embedding/weight|projection/weight",
    "positions": r"(inputs|targets)_positions/weight",
    "encoder self-attention": r"encoder_\d+/self_attention/.*",
    "encoder feed-forward": r"encoder_\d+/feed_forward/.*",
    "decoder self-attention": r"decoder_\d+/self_attention/.*",
    "decoder cross-attention": r"decoder_\d+/cross_attention/.*",
    "decoder feed-forward": r"decoder_\d+/feed_forward/.*",
    "norms": r"(encoder|decoder)_\d+/\w+_residual/norm/\w+|(encoder|decoder)_norm/\w+",
}
# Copies of the largest embedding matrix: its gradients as input and as output matrix, and their sum.
_COPIES_OF_EMBEDDING = 3


def parameter_parts(model: Model) -> dict[str, int]:
    """Returns the number of parameters in each of `PARTS`, and the others by top-level layer."""
    counts = dict.fromkeys(PARTS, 0)
    for variable in model.weights:
        path = variable.path.partition("/")[2]
        part = next(
            (part for part, pattern in PARTS.items() if re.fullmatch(pattern, path)), top_level_part(variable.path)
        )
        counts[part] = counts.get(part, 0) + math.prod(variable.shape)
    return counts


def formulas_hold(model: Model) -> bool:
    """Returns whether all layers have formulas that match their `call`."""
    layers = [*model.encoder_layers, *model.decoder_layers]
    parts = [part for layer in layers for part in (layer, *layer.residuals)]
    norms = [residual.norm for layer in layers for residual in layer.residuals]
    sublayers = [sublayer for layer in layers for sublayer in layer.sublayers]
    return all(has_formulas(part, "step_bytes") for part in (*parts, *norms)) and all(
        has_formulas(sublayer, "flops", "step_bytes") for sublayer in sublayers
    )


def step_flops(model: Model, source: float, target: float) -> dict[str, float]:
    """Returns the number of operations by part in a training step, for a pair of `source` and `target` tokens."""
    encoder: list[Any] = [*model.encoder_layers]
    decoder: list[Any] = [*model.decoder_layers]
    forward = {
        "encoder self-attention": sum(layer.self_attention.flops(source) for layer in encoder),
        "encoder feed-forward": sum(layer.feed_forward.flops(source) for layer in encoder),
        "decoder self-attention": sum(layer.self_attention.flops(target) for layer in decoder),
        "decoder cross-attention": sum(layer.cross_attention.flops(target, source) for layer in decoder),
        "decoder feed-forward": sum(layer.feed_forward.flops(target) for layer in decoder),
        "logits": 2 * target * model.hparams.hidden_size * model.vocab_size,
    }
    return {part: FORWARD_PASSES_OF_A_STEP * count for part, count in forward.items()}


def step_bytes(model: Model, length: int) -> StepBytes:
    """Returns the memory of a training step for sentences of `length` tokens on both sides."""
    hparams = model.hparams
    embedding = max(model.vocab_size, model.inputs_vocab_size) * hparams.hidden_size
    copies, in_chunks = embedding * _COPIES_OF_EMBEDDING * FLOAT32, model.logits_are_product
    around = StepBytes(
        kept=0.0 if in_chunks else model.vocab_size * COPIES_OF_LOGITS * FLOAT32,
        shared=copies + (chunk_bytes(model.vocab_size, hparams.hidden_size) if in_chunks else 0.0),
        graph=GRAPH_BYTES,
    )
    # Positions and dropout on both sides, and the final norms of both stacks, if any, cost about the same as two
    # residuals.
    residual = model.encoder_layers[0].residuals[0].step_bytes(length)
    layers = [layer.step_bytes(length) for layer in (*model.encoder_layers, *model.decoder_layers)]
    return sum(layers, around) + residual + residual
