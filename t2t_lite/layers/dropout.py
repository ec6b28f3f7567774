"""Dropout with random numbers as an argument, so that a training step is a pure function of weights, batch and step."""

import math

import keras
from keras import ops


class Dropout(keras.layers.Layer):
    """Sets each element to 0 with probability `rate` and scales the others by 1 / (1 - rate).

    Args:
      rate: probability of 0.

    Call arguments:
      x: float, any shape.
      seeds: the source of random numbers: an object whose method `uint16(shape)` returns uniform integers below 2**16,
        different at each call, such as `t2t_lite.training.step.dropout_seeds.DropoutSeeds`, which needs the rows of the
        batch to be contiguous in x. None: no random numbers.
      training: whether to apply dropout even without `seeds`, with numbers from Keras' global generator.
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, x, seeds=None, training=None):
        """Returns x with dropout, of the same shape; without `seeds` and `training`, x unchanged."""
        if self.rate == 0.0 or (seeds is None and not training):
            return x
        # 16 random bits per element: half as many as keras.random.dropout, and the same probability in every float
        # type (a bfloat16 random number has 128 values). The scale matches the rounded rate.
        threshold = min(round(self.rate * 2**16), 2**16 - 1)
        numbers = _keras_uint16(ops.shape(x)) if seeds is None else seeds.uint16(ops.shape(x))
        keep = ops.cast(ops.greater_equal(numbers, ops.cast(threshold, "uint16")), x.dtype)
        return x * (keep * (2**16 / (2**16 - threshold)))


def _keras_uint16(shape):
    """Returns uniform integers below 2**16 of the given shape, made from 32-bit numbers."""
    size = math.prod(shape)
    words = keras.random.randint(((size + 1) // 2, 1), -(2**31), 2**31 - 1, dtype="int32")
    return ops.reshape(ops.reshape(ops.view(words, "uint16"), (-1,))[:size], shape)
