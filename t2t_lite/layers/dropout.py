"""Dropout that takes random numbers as an argument, so that a training step is a pure function of its inputs."""

import math
from typing import Protocol

import keras

from t2t_lite.arrays import Array
from t2t_lite.layers.base import Layer
from t2t_lite.layers.ops import dynamic_shape, multiply_by_mask, ops


class Seeds(Protocol):
    """A source of random numbers for one training step, such as `training.loss.DropoutSeeds`."""

    def uint16_like(self, x: Array) -> Array:
        """Returns uniform integers below 2**16 in the shape of x, different ones in each call."""
        ...


class KerasSeeds:
    """Random numbers from a Keras generator.

    Args:
      generator: the generator; None: the global one.
    """

    def __init__(self, generator: keras.random.SeedGenerator | None = None) -> None:
        self._generator = generator

    def uint16_like(self, x: Array) -> Array:
        """Returns uniform integers below 2**16 in the shape of x, made from 32-bit numbers."""
        shape = dynamic_shape(x)
        size = math.prod(shape)
        words = keras.random.randint(((size + 1) // 2, 1), -(2**31), 2**31 - 1, dtype="int32", seed=self._generator)
        return ops.reshape(ops.reshape(ops.view(words, "uint16"), (-1,))[:size], shape)


@keras.saving.register_keras_serializable(package="t2t_lite")
class Dropout(Layer):
    """Sets each element to 0 with probability `rate` and scales the others by 1 / (1 - rate).

    Args:
      rate: probability of 0.

    Call arguments:
      x: float, any shape.
      seeds: the source of random numbers, see `Seeds`; None: no dropout, unless `training` is True. With
        `DropoutSeeds`, x must contain contiguous rows of the batch.
      training: whether to apply dropout even without `seeds`, with numbers from Keras' global generator.

    Example:

    >>> dropout = Dropout(0.1)
    >>> ops.shape(dropout(ops.ones((2, 5, 8)), training=True))
    (2, 5, 8)
    """

    def __init__(self, rate: float, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, x: Array, seeds: Seeds | None = None, training: bool | None = None) -> Array:
        """Returns x with dropout, in the same shape, or x itself if neither `seeds` nor `training` is given."""
        if self.rate == 0.0 or (seeds is None and not training):
            return x
        # 16 random bits per element, half as many as in keras.random.dropout, give the same probability in every float
        # type; a bfloat16 random number has only 128 values. The scale matches the rounded rate.
        threshold = min(round(self.rate * 2**16), 2**16 - 1)
        numbers = (KerasSeeds() if seeds is None else seeds).uint16_like(x)
        keep = ops.cast(ops.greater_equal(numbers, ops.cast(threshold, "uint16")), x.dtype)
        return multiply_by_mask(x, keep * (2**16 / (2**16 - threshold)))
