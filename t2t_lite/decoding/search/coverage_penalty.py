"""The coverage penalty: outputs that leave parts of the source unattended rank lower."""

import tensorflow as tf

# The logarithm of less would outweigh any log-probability; a token that nothing attended to counts as this much.
_LEAST = 1e-6


def coverage_penalty(coverage, source_mask, beta):
    """What is added to a hypothesis' score: cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1)), at most 0.

    Args:
      coverage: sum_j p_ij, the attention that each token of the source had from all tokens of the output: float32
        [..., source].
      source_mask: bool, broadcast to the coverage, True = a token and not padding.
      beta: strength of the penalty, without unit; 0.2 is usual.

    Returns:
      float32 [...].

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 7, equation 14
    (https://arxiv.org/abs/1609.08144).
    """
    missing = tf.math.log(tf.clip_by_value(coverage, _LEAST, 1.0))
    return beta * tf.reduce_sum(tf.where(source_mask, missing, 0.0), -1)
