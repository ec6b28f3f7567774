"""Estimates the memory of a training step, to split batches into micro-batches that fit.

The estimate is made from the settings: it sums the tensors that the forward pass keeps for the gradients, and adds the
temporary ones. It errs on the high side, because a run that runs out of memory is lost. tests/training/test_memory.py
compares it with the peak memory of real training processes.
"""

import math

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.models.parameters import count_parameters

FLOAT32 = 4
MIB = 2**20
# The share of the free memory that a step may take. The rest is for the input pipeline, evaluation, checkpoints and
# other processes.
USABLE_SHARE = 0.8
# Batches of changing shapes fragment the memory.
ALLOCATOR_OVERHEAD = 1.15
# Graph and kernels of a step, measured on a CPU: a constant part, and a part per layer of either stack.
RUNTIME_BYTES = 32 * MIB
RUNTIME_BYTES_PER_LAYER = 24 * MIB
# A loop over positions adds two graphs, its own and its gradient's; local attention has many small operations.
RUNTIME_BYTES_PER_SELF_ATTENTION = {"recurrent": 32 * MIB, "local": 16 * MIB}
# float32 copies of the weights: the weights, their gradients and Adam's two moments; with several micro-batches also
# the sum of gradients before and after an addition.
COPIES_OF_WEIGHTS = 6
# Copies of the largest embedding matrix: its gradient as input matrix, as output matrix, and their sum.
COPIES_OF_EMBEDDING = 3


def step_bytes_fixed(hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None) -> int:
    """Returns the bytes that a training step holds for any batch size: weights, gradients, moments and the graph.

    Args:
      hparams: the settings.
      vocab_size: size of the target vocabulary.
      inputs_vocab_size: size of the source vocabulary; None: both sides share one.

    Raises:
      UserError: see `count_parameters`.
    """
    weights = sum(count_parameters(hparams, vocab_size, inputs_vocab_size).values())
    embedding = max(vocab_size, inputs_vocab_size or 0) * hparams.hidden_size
    copies = COPIES_OF_WEIGHTS + (hparams.ema_decay > 0.0)
    cast = 0 if hparams.precision == "float32" else _compute_bytes(hparams)
    layers = hparams.num_encoder_layers + hparams.num_decoder_layers
    runtime_per_layer = RUNTIME_BYTES_PER_LAYER + RUNTIME_BYTES_PER_SELF_ATTENTION.get(hparams.self_attention_type, 0)
    return (
        weights * (copies * FLOAT32 + cast)
        + embedding * COPIES_OF_EMBEDDING * FLOAT32
        + RUNTIME_BYTES
        + layers * runtime_per_layer
    )


def bytes_per_length(hparams: HParams, length: int) -> int:
    """Returns the bytes that depend on the sentence length but not on the number of sentences.

    They matter only with relative positions: a vector per pair of positions, and its gradient, in each layer.
    """
    pair = FLOAT32  # the causal mask
    if hparams.position_encoding == "relative":
        pair += (hparams.key_size + hparams.value_size) * (_compute_bytes(hparams) + FLOAT32)
    return (hparams.num_encoder_layers + hparams.num_decoder_layers) * length**2 * pair


def bytes_per_token(hparams: HParams, vocab_size: int, length: int) -> float:
    """Returns the bytes that a training step holds at its peak, per position of the longer side.

    Args:
      hparams: the settings.
      vocab_size: size of the target vocabulary.
      length: tokens of both sides of every sentence; attention needs more per position in longer sentences.
    """
    encoder_layer = _self_attention(hparams, length, causal=False) + _feed_forward(hparams) + 2 * _residual(hparams)
    decoder_layer = (
        _self_attention(hparams, length, causal=True)
        + _attention(hparams, length)
        + _feed_forward(hparams)
        + 3 * _residual(hparams)
    )
    embeddings = 2 * _residual(hparams)  # positions, dropout, and the final norms of both stacks, if any
    # The logits, their softmax, and their gradient before and after the targets are subtracted. Mixed precision has
    # three of these, and two-byte copies of logits and gradient, which adds up to the same size.
    logits = vocab_size * 4 * FLOAT32
    kept = hparams.num_encoder_layers * encoder_layer + hparams.num_decoder_layers * decoder_layer
    # Temporary tensors of one layer: intermediate results that are not kept, and gradients.
    passing = 10 * FLOAT32 * max(_inner_width(hparams, length), 2 * hparams.hidden_size)
    return ALLOCATOR_OVERHEAD * (kept + embeddings + logits + passing)


def choose_max_tokens(
    hparams: HParams, vocab_size: int, inputs_vocab_size: int | None, free_bytes: int, length: int
) -> int:
    """Returns how many positions, rows times length of the longer side, a device can hold at once.

    Args:
      hparams, vocab_size, inputs_vocab_size: see `step_bytes_fixed`.
      free_bytes: the device's free memory before the model is built, from `free_memory`.
      length: tokens of the longest possible sentence.

    Raises:
      UserError: if a single sentence of that length does not fit.
    """
    usable = USABLE_SHARE * free_bytes
    fixed = step_bytes_fixed(hparams, vocab_size, inputs_vocab_size) + bytes_per_length(hparams, length)
    per_token = bytes_per_token(hparams, vocab_size, length)
    tokens = int((usable - fixed) // per_token)
    if tokens < length:
        raise UserError(
            f"a sentence of {length} tokens takes about {_in_mib(length * per_token)} to train on, model and optimizer "
            f"{_in_mib(fixed)}, but {USABLE_SHARE:.0%} of the {_in_mib(free_bytes)} of free memory is only "
            f"{_in_mib(usable)}: use a smaller max_length or model, or `max_tokens_per_replica={length}` to try anyway"
        )
    return tokens


def _in_mib(size: float) -> str:
    return f"{math.ceil(size / MIB):,} MiB"


def _compute_bytes(hparams: HParams) -> int:
    """Bytes per number in the compute type."""
    return FLOAT32 if hparams.precision == "float32" else 2


def _residual(hparams: HParams) -> int:
    """Bytes that dropout, sum and norm around a sub-layer keep per position, and the output."""
    compute = _compute_bytes(hparams)
    mask = compute if hparams.residual_dropout else 0
    # The normalized input, in float32 with any precision, and the output; Keras' RMS norm also keeps its input.
    norm = FLOAT32 * (2 if hparams.norm_type == "rms" else 1) + compute
    return hparams.hidden_size * (mask + norm)


def _scores(hparams: HParams, number: float, dropout: float) -> float:
    """Bytes kept of `number` attention weights: the softmax, and the weights after dropout or a cast, if any."""
    compute = _compute_bytes(hparams)
    mixing = 2 * compute if dropout else (compute if compute != FLOAT32 else 0)
    return number * (FLOAT32 + mixing)


def _attention(hparams: HParams, keys: float) -> float:
    """Bytes that attention to `keys` positions keeps per position: queries, keys, values, output and weights."""
    heads = hparams.num_heads
    projected = 2 * heads * (hparams.key_size + hparams.value_size) * _compute_bytes(hparams)
    return projected + _scores(hparams, heads * keys, hparams.attention_dropout)


def _self_attention(hparams: HParams, length: int, causal: bool) -> float:
    """Bytes that a layer's self-attention, or the layer that replaces it, keeps per position."""
    compute, hidden, heads = _compute_bytes(hparams), hparams.hidden_size, hparams.num_heads
    kind = hparams.self_attention_type
    if kind == "recurrent":
        # Gates, candidate, states and their products of each step; the float32 part is as measured.
        return hidden * (8 * compute + 10 * FLOAT32)
    if kind in ("convolution", "separable_convolution"):
        # The masked input, the padded input, and the output of the depthwise filters.
        layers = hparams.num_decoder_layers if causal else hparams.num_encoder_layers
        dilation = sum(hparams.dilation_growth**index for index in range(layers)) / layers
        return 3 * hidden * compute * (1 + (hparams.kernel_size - 1) * dilation / length)
    if kind == "local":
        keys, padding = _local_keys(hparams, length, causal)
        # Blocks of queries, the keys and values of all neighboring blocks, and a copy of the weights split by neighbor.
        neighbors = 2 if causal else 3
        blocks = heads * ((1 + neighbors) * hparams.key_size + neighbors * hparams.value_size) * compute
        return _attention(hparams, 0) + padding * (blocks + _scores(hparams, heads * keys, 0.0) + _cut(hparams, keys))
    if hparams.position_encoding == "relative":
        # Copies of queries and weights, sorted by query.
        return _attention(hparams, length) + heads * (hparams.key_size + length) * compute
    return _attention(hparams, length)


def _cut(hparams: HParams, keys: int) -> int:
    """Bytes of the copy of its weights that local attention keeps in the compute type, and of its dropout mask."""
    return hparams.num_heads * keys * _compute_bytes(hparams) * (2 if hparams.attention_dropout else 1)


def _local_keys(hparams: HParams, length: int, causal: bool) -> tuple[int, float]:
    """Returns (keys that a block of queries sees, ratio of the padded length to `length`)."""
    block = hparams.neighborhood_size if causal else hparams.neighborhood_size // 2
    return (2 if causal else 3) * block, math.ceil(length / block) * block / length


def _feed_forward(hparams: HParams) -> float:
    """Bytes that a layer's feed-forward network, or the layer that replaces it, keeps per position."""
    compute = _compute_bytes(hparams)
    if hparams.feed_forward_type == "attention":
        projected = 2 * hparams.parameter_heads * hparams.parameter_head_size * compute
        pairs = hparams.parameter_heads * hparams.parameter_pairs
        return projected + _scores(hparams, pairs, hparams.attention_dropout)
    inner = 4 if hparams.feed_forward_type == "swiglu" else 1  # swiglu: gate, swish of the gate, linear part, product
    return hparams.filter_size * compute * (inner + (2 if hparams.relu_dropout else 0))


def _inner_width(hparams: HParams, length: int) -> int:
    """The size of the largest tensor inside any layer, in numbers per position."""
    keys = [length]  # cross-attention
    if hparams.self_attention_type == "local":
        keys.append(2 * hparams.neighborhood_size)
    width = hparams.filter_size * (2 if hparams.feed_forward_type == "swiglu" else 1)
    if hparams.feed_forward_type == "attention":
        width = hparams.parameter_heads * hparams.parameter_pairs
    return max(width, hparams.num_heads * max(keys))
