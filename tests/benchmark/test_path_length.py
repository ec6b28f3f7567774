"""Measured path lengths against literal values, and against a search over the positions that kernels reach."""

import math

import pytest

from t2t_lite.benchmark.layers import LAYERS, path_length, table_path_length


def searched(length, reaches):
    """Returns the number of layers until every position depends on every other one.

    `reaches` yields, for layers 0, 1, ..., the distances from a position to the positions that depend on it.
    """
    dependent = [{position} for position in range(length)]
    layers = 0
    while any(len(positions) < length for positions in dependent):
        moves = reaches(layers)
        dependent = [
            {p + move for p in positions for move in moves if 0 <= p + move < length} for positions in dependent
        ]
        layers += 1
    return layers


@pytest.mark.parametrize("length", [2, 9])
def test_full_attention_needs_one_layer(length):
    assert path_length("full", length, 4) == 1


@pytest.mark.parametrize("name", ["recurrent", "convolution", "separable_convolution"])
@pytest.mark.parametrize("length", [2, 3, 9])
def test_layers_that_move_one_position_at_a_time_need_length_minus_one_steps(name, length):
    assert path_length(name, length, 4) == length - 1


@pytest.mark.parametrize(
    ("length", "neighborhood_size", "layers"),
    [(16, 8, 4), (17, 8, 4), (18, 8, 5), (16, 2, 15), (4, 8, 1), (5, 8, 1), (6, 8, 2)],
)
def test_each_layer_of_local_attention_reaches_half_a_neighborhood_further(length, neighborhood_size, layers):
    assert path_length("local", length, neighborhood_size) == layers
    half = neighborhood_size // 2
    assert searched(length, lambda layer: range(-half, half + 1)) == layers


@pytest.mark.parametrize("length", [2, 3, 5, 9, 10, 16])
def test_dilated_convolutions_triple_their_reach_per_layer_and_then_repeat(length):
    dilations = [dilation for dilation in (1, 3, 9, 27) if dilation < length]

    def reaches(layer):
        dilation = dilations[layer % len(dilations)]
        return (-dilation, 0, dilation)

    assert path_length("dilated_convolution", length, 4) == searched(length, reaches)


def test_path_lengths_of_table_1():
    said = {name: table_path_length(name, 81, 9) for name in LAYERS}
    assert said.pop("dilated_convolution") == pytest.approx(4.0)  # 3 ** 4 = 81
    assert said == {"full": 1, "local": 9, "recurrent": 81, "convolution": 27, "separable_convolution": 27}
    assert table_path_length("dilated_convolution", 100, 9) == pytest.approx(math.log(100) / math.log(3))
