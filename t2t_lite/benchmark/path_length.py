"""Measures the maximum path length in the paper's table 1: the number of layers until all outputs depend on all inputs.

Changing one input position of a real layer shows which outputs depend on it. This gives the layer's dependency matrix.
Stacking layers multiplies these matrices.
"""

import math

import numpy as np
from keras import ops

from t2t_lite.benchmark.layer_points import make_layer
from t2t_lite.benchmark.layers import KERNEL_SIZE
from t2t_lite.layers.convolution import Convolution

LAYERS = ("full", "local", "recurrent", "convolution", "separable_convolution", "dilated_convolution")
WIDTH = 8


def path_length(name: str, length: int, neighborhood_size: int) -> int:
    """Returns the number of layers after which every position of an encoder depends on every other position.

    `name` is one of LAYERS, `length` is in positions, and `neighborhood_size` is r in local attention. The dilation of
    "dilated_convolution" is KERNEL_SIZE times that of the layer below, and restarts at 1 when it would reach the
    sequence length. For a recurrent layer, each sequential step counts as a layer.
    """
    reached = np.eye(length, dtype=bool)
    layers = 0
    while not reached.all():
        layers += 1
        if layers == 1 or name == "dilated_convolution":  # stacked layers of the other kinds are identical
            one_layer = _dependencies(name, length, neighborhood_size, layers - 1)
        further = (one_layer.astype("float32") @ reached.astype("float32")) > 0
        if (further == reached).all() and name != "dilated_convolution":
            raise ValueError(f"{name}: with {length} positions, some outputs never depend on some inputs")
        reached = further
    return layers


def table_path_length(name: str, length: int, neighborhood_size: int) -> float:
    """Returns the table's path length without constant factors: 1, n / r, n, n / k or log_k n."""
    return {
        "full": 1.0,
        "local": length / neighborhood_size,
        "recurrent": float(length),
        "dilated_convolution": math.log(length, KERNEL_SIZE),
    }.get(name, length / KERNEL_SIZE)  # section 4: O(n / k) for contiguous kernels


def _dependencies(name: str, length: int, neighborhood_size: int, index: int) -> np.ndarray:
    """Returns bool [outputs, inputs]: whether each output of layer `index` depends on each input."""
    if name == "recurrent":
        return _dependencies_of_a_unit(length)
    if name == "dilated_convolution":
        dilations = [KERNEL_SIZE**i for i in range(length) if KERNEL_SIZE**i < length]
        dilation = dilations[index % len(dilations)]
        layer = Convolution(WIDTH, causal=False, kernel_size=KERNEL_SIZE, dilation=dilation)
    else:
        layer = make_layer(name, WIDTH, neighborhood_size)
    layer.build((None, None, WIDTH))
    # Small inputs keep attention weights away from 0, so that rounding hides no dependency.
    x = 0.1 * np.random.default_rng(1).normal(size=(length, WIDTH)).astype("float32")
    changed = np.repeat(x[None], length + 1, axis=0)  # the last row stays unchanged
    changed[np.arange(length), np.arange(length)] += 0.3
    y = np.asarray(ops.convert_to_numpy(layer(changed, np.ones((length + 1, 1, 1, length), bool))))
    return (np.abs(y[:-1] - y[-1]).max(axis=-1) > 1e-6 * np.abs(y[-1]).max()).T


def _dependencies_of_a_unit(length: int) -> np.ndarray:
    """Returns bool [outputs, inputs]: the dependencies of one recurrent step, on its input and its neighbor's state.

    An encoder has recurrent units in both directions.
    """
    layer = make_layer("recurrent", WIDTH, 0)
    layer.build((None, None, WIDTH))
    matrix = np.zeros((length, length), bool)
    for units, neighbor in zip(layer.directions, (-1, 1)):
        x, state = (ops.ones((1, 1, WIDTH)) * 0.5, ops.ones((1, units.units)) * 0.5)
        before = np.array(units.advance(state, units.project(x)[:, 0]))
        on_input = np.abs(np.array(units.advance(state, units.project(x + 1.0)[:, 0])) - before).max() > 1e-6
        on_state = np.abs(np.array(units.advance(state + 1.0, units.project(x)[:, 0])) - before).max() > 1e-6
        matrix |= on_input & np.eye(length, dtype=bool) | on_state & np.eye(length, k=neighbor, dtype=bool)
    return matrix
