"""What tests of layers share: random inputs, and layers with random weights."""

import numpy as np


def random(*shape, seed=0):
    """Returns normally distributed float32 numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def built(layer, paper, hidden_size):
    """Builds a layer for inputs of that width, gives it random weights, and returns it."""
    layer.build((None, None, hidden_size))
    paper.randomize(layer, seed=7)
    return layer
