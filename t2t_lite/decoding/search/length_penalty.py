"""The length penalty, which lets beam search compare hypotheses of different lengths."""

import numpy as np

from t2t_lite.arrays import Array

# The constants in the penalties by their names; `config.LENGTH_PENALTIES` lists them.
_CONSTANTS = {"wu": 5, "power": 0}


def length_penalty(length: Array | float, alpha: Array | float, kind: str = "wu") -> Array:
    """Returns the divisor of a hypothesis' log-probability: lp(Y) = ((5 + |Y|) / 6) ^ alpha, or |Y| ^ alpha.

    Every token lowers the log-probability, so without a penalty short outputs win. At alpha = 0 the penalty is 1, and
    outputs are compared by log-probability. For |Y| = 1 it is always 1. For alpha > 0 it grows with the length.

    Args:
      length: |Y|, in tokens including the end symbol. A Python number, NumPy array or tensor of any shape.
      alpha: strength of the penalty, unitless; 0.6 is common.
      kind: "wu" for the first formula; "power" for the second, which Marian and Hugging Face use.

    Returns:
      The penalty, with the shape of `length`; float32 if `length` is a tensor.

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 7, equation 14
    (https://arxiv.org/abs/1609.08144), without the coverage term.
    """
    number: Array = length
    if not isinstance(length, int | float | np.ndarray | np.generic):
        import tensorflow as tf

        number = tf.cast(length, tf.float32)  # TensorFlow divides integers in float64
    constant = _CONSTANTS[kind]
    return ((constant + number) / (constant + 1)) ** alpha
