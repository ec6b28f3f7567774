"""Maximum path length of table 1 of the paper: how many layers until every output depends on every input.

Traced, not calculated: one input position of a real layer is changed, and it is seen which outputs change. That gives
a layer's matrix of dependencies; stacking layers is multiplying such matrices.
"""

import math

import numpy as np
from keras import ops

from t2t_lite.benchmark.layers import KERNEL_SIZE, make_layer
from t2t_lite.layers.convolution import Convolution

LAYERS = ("full", "local", "recurrent", "convolution", "separable_convolution", "dilated_convolution")
WIDTH = 8


def path_length(name: str, length: int, neighborhood_size: int) -> int:
    """Returns the number of layers after which every position of an encoder depends on every other.

    Args:
      name: one of LAYERS. The dilation of "dilated_convolution" is KERNEL_SIZE times that of the layer below it, and
        1 again before it would leave the sequence.
      length: n, positions.
      neighborhood_size: r of local attention.

    A recurrent layer counts as many as its signals pass units one after the other: each step of it is a layer here.
    """
    reached = np.eye(length, dtype=bool)
    layers = 0
    while not reached.all():
        layers += 1
        if layers == 1 or name == "dilated_convolution":  # layers of the other kinds are all alike
            one_layer = _dependencies(name, length, neighborhood_size, layers - 1)
        further = (one_layer.astype("float32") @ reached.astype("float32")) > 0
        if (further == reached).all() and name != "dilated_convolution":
            raise ValueError(f"{name}: some positions of {length} never depend on some others")
        reached = further
    return layers


def table_path_length(name: str, length: int, neighborhood_size: int) -> float:
    """Returns what the table says, without constant factors: 1, n / r, n, or log_k n."""
    return {
        "full": 1.0,
        "local": length / neighborhood_size,
        "recurrent": float(length),
        "dilated_convolution": math.log(length, KERNEL_SIZE),
    }.get(name, length / KERNEL_SIZE)  # section 4: O(n / k) for contiguous kernels


def _dependencies(name: str, length: int, neighborhood_size: int, index: int) -> np.ndarray:
    """Returns bool [outputs, inputs]: which outputs of layer number `index` change with which inputs."""
    if name == "recurrent":
        return _dependencies_of_a_unit(length)
    if name == "dilated_convolution":
        dilations = [KERNEL_SIZE**i for i in range(length) if KERNEL_SIZE**i < length]
        dilation = dilations[index % len(dilations)]
        layer = Convolution(WIDTH, causal=False, kernel_size=KERNEL_SIZE, dilation=dilation)
    else:
        layer = make_layer(name, WIDTH, neighborhood_size)
    layer.build((None, None, WIDTH))
    # Small numbers, so that no attention weight is so near to 0 that a dependency is lost in rounding.
    x = 0.1 * np.random.default_rng(1).normal(size=(length, WIDTH)).astype("float32")
    changed = np.repeat(x[None], length + 1, axis=0)  # the last stays as it is
    changed[np.arange(length), np.arange(length)] += 0.3
    y = ops.convert_to_numpy(layer(changed, np.ones((length + 1, 1, 1, length), bool)))
    return (np.abs(y[:-1] - y[-1]).max(axis=-1) > 1e-6 * np.abs(y[-1]).max()).T


def _dependencies_of_a_unit(length: int) -> np.ndarray:
    """Returns the same for one unit of a recurrent layer at each position: it sees its input and its neighbour's state.

    An encoder has units in both directions.
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
