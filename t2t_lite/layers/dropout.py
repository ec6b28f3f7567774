"""Dropout whose randomness is an argument, so that a training step is a pure function of (weights, batch, seed)."""

import math

import keras
from keras import ops


class CallSeeds(keras.random.SeedGenerator):
    """Gives each dropout place of one forward pass its own seed, derived from the pass's seed.

    Nothing is stored between passes: the same seed gives the same masks, after any number of restarts. It is a
    SeedGenerator because keras.random asks those, and only those, for a seed that is a tensor: by their `next`.

    Args:
      seed: uint32 [2]; passes with different seeds are independent.
    """

    def __init__(self, seed):
        # The parent's __init__ would make a state variable, which is what this class is there to avoid.
        self._seed = seed
        self._places = 0

    def next(self, ordered=True):
        """Returns the seed of the next place, uint32 [2]."""
        self._places += 1
        return self._seed + ops.convert_to_tensor([0, self._places], dtype="uint32")


class Dropout(keras.layers.Layer):
    """Sets each element to 0 with probability `rate` and scales the others by 1 / (1 - rate).

    Args:
      rate: probability of 0.

    Call arguments:
      x: float, any shape.
      seeds: `CallSeeds`; None (inference) leaves x as it is.
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, x, seeds=None):
        """Returns x with dropout, of the same shape."""
        if seeds is None or self.rate == 0.0:
            return x
        # 16 random bits an element: half the random numbers of keras.random.dropout, and the same probability in
        # every float type (a bfloat16 random number has 128 values). The scale is that of the rounded rate.
        threshold = min(round(self.rate * 2**16), 2**16 - 1)
        keep = ops.cast(ops.greater_equal(_random_uint16(ops.shape(x), seeds), ops.cast(threshold, "uint16")), x.dtype)
        return x * (keep * (2**16 / (2**16 - threshold)))


def _random_uint16(shape, seeds):
    """Returns evenly distributed whole numbers below 2**16, of the given shape, cut out of numbers of 32 bits."""
    if isinstance(shape[-1], int) and shape[-1] % 2 == 0:  # the same numbers in fewer operations
        words = keras.random.randint((*shape[:-1], shape[-1] // 2), -(2**31), 2**31 - 1, dtype="int32", seed=seeds)
        return ops.view(words, "uint16")
    size = math.prod(shape)
    words = keras.random.randint(((size + 1) // 2, 1), -(2**31), 2**31 - 1, dtype="int32", seed=seeds)
    return ops.reshape(ops.reshape(ops.view(words, "uint16"), (-1,))[:size], shape)
