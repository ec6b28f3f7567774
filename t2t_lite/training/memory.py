"""How much memory a training step takes, so that a batch is cut into micro-batches that fit.

An estimate from the settings: the tensors that the forward pass keeps for the gradients, one by one, and what passes
through memory on top of them. It leans to the high side, for a training that runs out of memory is worth nothing;
tests/training/test_memory.py compares it with the peak of processes that train.
"""

import math

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.models.parameters import count_parameters

FLOAT32 = 4
MIB = 2**20
# Of the free memory, what a step may take: the rest is for the input pipeline, evaluation, checkpoints and neighbors.
USABLE_SHARE = 0.8
# What lies unused between tensors: batches of ever other shapes leave holes that the next ones do not fit into.
ALLOCATOR_OVERHEAD = 1.15
# Graph and kernels of a step, as measured on a CPU: at all, and for each layer of either stack.
RUNTIME_BYTES = 32 * MIB
RUNTIME_BYTES_PER_LAYER = 24 * MIB
# A loop over positions is a graph of its own, as is its gradient; local attention is many small operations.
RUNTIME_BYTES_PER_SELF_ATTENTION = {"recurrent": 32 * MIB, "local": 16 * MIB}
# Of the weights, each in float32: themselves, their gradients, Adam's two moments; with several micro-batches also the
# sums of gradients, before and after one of them is added.
COPIES_OF_WEIGHTS = 6
# Of the largest matrix of embeddings: its gradients as input, as output matrix, and their sum.
COPIES_OF_EMBEDDING = 3


def step_bytes_fixed(hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None) -> int:
    """Returns what a training step holds however small the batch: weights, gradients, moments, the graph itself.

    Args:
      hparams: the settings.
      vocab_size: number of target tokens.
      inputs_vocab_size: number of source tokens; None: one vocabulary serves both sides.

    Raises:
      UserError: as `count_parameters`.
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
    """Returns what a training step holds once for all its sentences because they are `length` tokens long.

    That is little but for relative positions: a vector for each pair of positions, and its gradient, in each layer.
    """
    pair = FLOAT32  # of a causal mask
    if hparams.position_encoding == "relative":
        pair += (hparams.key_size + hparams.value_size) * (_compute_bytes(hparams) + FLOAT32)
    return (hparams.num_encoder_layers + hparams.num_decoder_layers) * length**2 * pair


def bytes_per_token(hparams: HParams, vocab_size: int, length: int) -> float:
    """Returns the bytes that a training step holds at its peak for each position of the longer side.

    Args:
      hparams: the settings.
      vocab_size: number of target tokens.
      length: tokens of both sides of all sentences; attention takes more for a position of a longer sentence.
    """
    encoder_layer = _self_attention(hparams, length, causal=False) + _feed_forward(hparams) + 2 * _residual(hparams)
    decoder_layer = (
        _self_attention(hparams, length, causal=True)
        + _attention(hparams, length)
        + _feed_forward(hparams)
        + 3 * _residual(hparams)
    )
    embeddings = 2 * _residual(hparams)  # positions, dropout, and the norms on top of both stacks if there are such
    # The logits, their softmax, and their gradient before and after the targets are taken off; in mixed precision three
    # of them, with logits and gradient once more in two bytes, which is as much.
    logits = vocab_size * 4 * FLOAT32
    kept = hparams.num_encoder_layers * encoder_layer + hparams.num_decoder_layers * decoder_layer
    # In one layer at a time: what is between the tensors that are kept, and gradients on their way.
    passing = 10 * FLOAT32 * max(_inner_width(hparams, length), 2 * hparams.hidden_size)
    return ALLOCATOR_OVERHEAD * (kept + embeddings + logits + passing)


def choose_max_tokens(
    hparams: HParams, vocab_size: int, inputs_vocab_size: int | None, free_bytes: int, length: int
) -> int:
    """Returns how many positions, rows times length of the longer side, a device can hold at once.

    Args:
      hparams, vocab_size, inputs_vocab_size: as `step_bytes_fixed` takes them.
      free_bytes: free for this device before the model is built, as `free_memory` says.
      length: tokens of the longest sentence that there can be.

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
            f"{_in_mib(fixed)}, but {USABLE_SHARE:.0%} of the {_in_mib(free_bytes)} that are free is only "
            f"{_in_mib(usable)}: use a smaller max_length or model, or --max_tokens_per_replica={length} to try it"
        )
    return tokens


def _in_mib(size: float) -> str:
    return f"{math.ceil(size / MIB):,} MiB"


def _compute_bytes(hparams: HParams) -> int:
    """Bytes of a number that products are made of."""
    return FLOAT32 if hparams.precision == "float32" else 2


def _residual(hparams: HParams) -> int:
    """What dropout, sum and norm around a sub-layer keep for a position, with the output, that the next one keeps."""
    compute = _compute_bytes(hparams)
    mask = compute if hparams.residual_dropout else 0
    # The normalized input, float32 whatever products are, and the output; Keras' RMS norm keeps its input, too.
    norm = FLOAT32 * (2 if hparams.norm_type == "rms" else 1) + compute
    return hparams.hidden_size * (mask + norm)


def _scores(hparams: HParams, number: int, dropout: float) -> int:
    """What is kept of so many attention weights: the softmax, and what mixes values if it is another tensor."""
    compute = _compute_bytes(hparams)
    mixing = 2 * compute if dropout else (compute if compute != FLOAT32 else 0)
    return number * (FLOAT32 + mixing)


def _attention(hparams: HParams, keys: float) -> float:
    """What multi-head attention to `keys` positions keeps for a position: queries, keys, values, mixture; weights."""
    heads = hparams.num_heads
    projected = 2 * heads * (hparams.key_size + hparams.value_size) * _compute_bytes(hparams)
    return projected + _scores(hparams, heads * keys, hparams.attention_dropout)


def _self_attention(hparams: HParams, length: int, causal: bool) -> float:
    """What a layer's self-attention, or what stands in its place, keeps for a position."""
    compute, hidden, heads = _compute_bytes(hparams), hparams.hidden_size, hparams.num_heads
    kind = hparams.self_attention_type
    if kind == "recurrent":
        # Of each step gates, candidate, states and their products; in float32 as far as measured.
        return hidden * (8 * compute + 10 * FLOAT32)
    if kind in ("convolution", "separable_convolution"):
        # The masked input, the same padded, and what one filter a channel makes of it.
        layers = hparams.num_decoder_layers if causal else hparams.num_encoder_layers
        dilation = sum(hparams.dilation_growth**index for index in range(layers)) / layers
        return 3 * hidden * compute * (1 + (hparams.kernel_size - 1) * dilation / length)
    if kind == "local":
        keys, padding = _local_keys(hparams, length, causal)
        # Blocks of queries, and keys and values of all neighbors; the weights once more, cut up by neighbors.
        neighbors = 2 if causal else 3
        blocks = heads * ((1 + neighbors) * hparams.key_size + neighbors * hparams.value_size) * compute
        return _attention(hparams, 0) + padding * (blocks + _scores(hparams, heads * keys, 0.0) + _cut(hparams, keys))
    if hparams.position_encoding == "relative":
        # Queries and weights once more, sorted by query.
        return _attention(hparams, length) + heads * (hparams.key_size + length) * compute
    return _attention(hparams, length)


def _cut(hparams: HParams, keys: int) -> int:
    """What local attention keeps of its weights in the type of products: a copy, and a mask if there is dropout."""
    return hparams.num_heads * keys * _compute_bytes(hparams) * (2 if hparams.attention_dropout else 1)


def _local_keys(hparams: HParams, length: int, causal: bool) -> tuple[int, float]:
    """Returns (keys that a query's block sees, how many times longer `length` is with its last block filled up)."""
    block = hparams.neighborhood_size if causal else hparams.neighborhood_size // 2
    return (2 if causal else 3) * block, math.ceil(length / block) * block / length


def _feed_forward(hparams: HParams) -> int:
    """What a layer's feed-forward network, or what stands in its place, keeps for a position."""
    compute = _compute_bytes(hparams)
    if hparams.feed_forward_type == "attention":
        projected = 2 * hparams.parameter_heads * hparams.parameter_head_size * compute
        pairs = hparams.parameter_heads * hparams.parameter_pairs
        return projected + _scores(hparams, pairs, hparams.attention_dropout)
    inner = 4 if hparams.feed_forward_type == "swiglu" else 1  # swiglu: gate, its swish, what it lets through, product
    return hparams.filter_size * compute * (inner + (2 if hparams.relu_dropout else 0))


def _inner_width(hparams: HParams, length: int) -> int:
    """The most numbers of one tensor, for a position, inside any layer."""
    keys = [length]  # of the decoder's attention to the encoder
    if hparams.self_attention_type == "local":
        keys.append(2 * hparams.neighborhood_size)
    width = hparams.filter_size * (2 if hparams.feed_forward_type == "swiglu" else 1)
    if hparams.feed_forward_type == "attention":
        width = hparams.parameter_heads * hparams.parameter_pairs
    return max(width, hparams.num_heads * max(keys))
