"""The length penalty by which beam search compares hypotheses of different lengths."""

import tensorflow as tf


def length_penalty(length, alpha):
    """Divisor of a hypothesis' log-probability: lp(Y) = ((5 + |Y|) / 6) ^ alpha.

    Every further token lowers the log-probability, so without a penalty short outputs win. At alpha = 0 the
    penalty is 1 (pure log-probability); it is always 1 for |Y| = 1; for alpha > 0 it grows with the length.

    Args:
        length: |Y|, in tokens including the end symbol. A Python number, NumPy array or tensor of any shape.
        alpha: strength of the penalty, without unit; 0.6 is usual.

    Returns:
        The penalty, shaped like `length`; float32 when `length` is a tensor.

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 7, equation 14
    (https://arxiv.org/abs/1609.08144), without the coverage term.
    """
    if tf.is_tensor(length):
        length = tf.cast(length, tf.float32)  # TensorFlow would divide integers in float64
    return ((5 + length) / 6) ** alpha
