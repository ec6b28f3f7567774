"""Training cost (table 2 of the paper): estimated from time and devices, or counted from the settings.

The count covers matrix products and convolutions only, at two operations per multiply-add. Element-wise operations
(norms, softmax, dropout, positions, the optimizer) are left out. Masked entries count, because they are computed. All
sentences are taken to have the average length and no padding.
"""

import math

from t2t_lite.config import HParams

# Sustained single-precision rates of GPUs in 10^12 operations per second, from the footnote of section 6.1.
SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
# The backward pass makes two products for each one of the forward pass: one gradient per factor.
FORWARD_PASSES_OF_A_STEP = 3


def estimated_flops(seconds: float, devices: int, tflops: float) -> float:
    """Returns the paper's estimate of training cost: time times devices times rate (section 6.1).

    Args:
      seconds: training time.
      devices: number of devices.
      tflops: sustained rate of one device, in 10^12 operations per second, for example from `SUSTAINED_TFLOPS`.
    """
    return seconds * devices * tflops * 1e12


def training_step_flops(
    hparams: HParams, vocab_size: int, source_length: float, target_length: float
) -> dict[str, float]:
    """Counts the operations of one optimizer step, forward and backward.

    Args:
      hparams: the settings; a step has `batch_tokens` target tokens, and source tokens in proportion to the lengths.
      vocab_size: size of the target vocabulary; the source embedding is a lookup, not a product.
      source_length, target_length: average tokens per sentence, end symbol included.

    Returns:
      operations by part, in the order of `forward_flops`.
    """
    pairs = hparams.batch_tokens / target_length
    forward = forward_flops(hparams, vocab_size, source_length, target_length)
    return {part: FORWARD_PASSES_OF_A_STEP * pairs * count for part, count in forward.items()}


def forward_flops(hparams: HParams, vocab_size: int, source_length: float, target_length: float) -> dict[str, float]:
    """Counts the operations of the forward pass of one pair of sentences.

    Args:
      hparams, vocab_size, source_length, target_length: see `training_step_flops`.

    Returns:
      operations by part.
    """
    encoder, decoder = hparams.num_encoder_layers, hparams.num_decoder_layers
    multiplications = {
        "encoder self-attention": encoder * _self_attention(hparams, source_length, causal=False),
        "encoder feed-forward": encoder * source_length * _feed_forward(hparams),
        "decoder self-attention": decoder * _self_attention(hparams, target_length, causal=True),
        "decoder cross-attention": decoder * _attention(hparams, target_length, source_length, source_length),
        "decoder feed-forward": decoder * target_length * _feed_forward(hparams),
        "logits": target_length * hparams.hidden_size * vocab_size,
    }
    return {part: 2 * count for part, count in multiplications.items()}


def _attention(hparams: HParams, queries: float, positions: float, keys: float) -> float:
    """Multiplications of multi-head attention: the projections, and `keys` scores and weights per query.

    Keys and values are projected at `positions`; `keys` differs from it if a query does not see all positions.
    """
    width = hparams.num_heads * (hparams.key_size + hparams.value_size)
    projections = (queries + positions) * hparams.hidden_size * width  # W^Q and W^O, W^K and W^V
    return projections + queries * keys * width


def _self_attention(hparams: HParams, length: float, causal: bool) -> float:
    """Multiplications of one layer's self-attention, or of the layer that replaces it (table 1)."""
    d, k = hparams.hidden_size, hparams.kernel_size
    if hparams.self_attention_type == "local":
        r = hparams.neighborhood_size
        # A block of queries sees the keys of its own block, of the previous one and, if not causal, of the next one.
        block, blocks_seen = (r, 2) if causal else (r // 2, 3)
        padded = math.ceil(length / block) * block
        width = hparams.num_heads * (hparams.key_size + hparams.value_size)
        return _attention(hparams, length, length, 0) + padded * blocks_seen * block * width
    if hparams.self_attention_type == "recurrent":
        directions, units = (1, d) if causal else (2, d // 2)
        return length * directions * 3 * (d * units + units * units)  # two gates and a candidate
    if hparams.self_attention_type == "convolution":
        return length * k * d * d
    if hparams.self_attention_type == "separable_convolution":
        return length * (k * d + d * d)
    # Relative positions repeat scores and mixing, with the vectors of distances as keys and values.
    times = 2 if hparams.position_encoding == "relative" else 1
    return _attention(hparams, length, length, times * length)


def _feed_forward(hparams: HParams) -> float:
    """Multiplications of one layer's feed-forward network per position."""
    d = hparams.hidden_size
    if hparams.feed_forward_type == "attention":
        return 2 * (d + hparams.parameter_pairs) * hparams.parameter_heads * hparams.parameter_head_size
    matrices = 3 if hparams.feed_forward_type == "swiglu" else 2
    return matrices * d * hparams.filter_size
