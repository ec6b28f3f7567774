"""The coverage penalty, which lowers the score of outputs that leave parts of the source unattended."""

import tensorflow as tf

# Lower bound of a source token's coverage: the logarithm of less would outweigh any log-probability.
_MIN_COVERAGE = 1e-6


def coverage_penalty(coverage: tf.Tensor, source_mask: tf.Tensor, beta: float) -> tf.Tensor:
    """Returns the term added to a hypothesis' score: cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1)), at most 0.

    Args:
      coverage: float32 [..., source], sum_j p_ij: the attention that each source token received from all output tokens.
      source_mask: bool, broadcastable to `coverage`, True = a token, False = padding.
      beta: strength of the penalty, unitless; 0.2 is common.

    Returns:
      float32 [...].

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 7, equation 14
    (https://arxiv.org/abs/1609.08144).
    """
    missing = tf.math.log(tf.clip_by_value(coverage, _MIN_COVERAGE, 1.0))
    return beta * tf.reduce_sum(tf.where(source_mask, missing, 0.0), -1)
