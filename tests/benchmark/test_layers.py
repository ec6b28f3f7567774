"""Exponents of exact power laws, the measurements, and their plot."""

import math

import numpy as np
import pytest

from t2t_lite.benchmark.layers import CASES, Point, attention_alone, exponent, make_layer, slope, table_exponent


def points_of(seconds, memory, lengths=(64, 128, 512), widths=(256,)):
    """Points whose time and memory are functions of length and width."""
    return [Point(n, d, seconds(n, d), memory(n, d)) for n in lengths for d in widths]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, -1.0])
def test_the_slope_of_a_power_law_is_its_exponent_for_any_factor(power):
    x = (3, 5, 80, 1000)
    for factor in (1e-6, 1.0, 7e4):
        assert slope(x, [factor * number**power for number in x]) == pytest.approx(power, abs=1e-6)


def test_exponents_are_fitted_for_seconds_and_memory_over_length_and_width():
    by_length = points_of(lambda n, d: 1e-9 * n**2, lambda n, d: 8 * n)
    assert exponent(by_length, "seconds", "length") == pytest.approx(2.0)
    assert exponent(by_length, "memory", "length") == pytest.approx(1.0)
    by_width = points_of(lambda n, d: 1e-9 * d**1.5, lambda n, d: d**2, (64,), (256, 512, 1024))
    assert exponent(by_width, "seconds", "hidden_size") == pytest.approx(1.5)
    assert exponent(by_width, "memory", "hidden_size") == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("name", "over_length", "over_width"), [("full", 2, 1), ("local", 1, 1), ("recurrent", 1, 2), ("convolution", 1, 2)]
)
def test_the_exponents_of_table_1(name, over_length, over_width):
    case = CASES[name]
    by_length = points_of(lambda n, d: 1.0, lambda n, d: 1)
    by_width = points_of(lambda n, d: 1.0, lambda n, d: 1, (64,), (256, 512, 2048))
    assert table_exponent(case, by_length, "length", 8) == pytest.approx(over_length)
    assert table_exponent(case, by_width, "hidden_size", 8) == pytest.approx(over_width)


def test_a_separable_convolution_is_linear_in_length_and_almost_quadratic_in_width():
    case = CASES["separable_convolution"]
    assert case.flops(10, 4, 8) == 3 * 10 * 4 + 10 * 4 * 4
    by_length = points_of(lambda n, d: 1.0, lambda n, d: 1)
    assert table_exponent(case, by_length, "length", 8) == pytest.approx(1.0)
    by_width = points_of(lambda n, d: 1.0, lambda n, d: 1, (64,), (256, 512))
    expected = math.log2((3 * 512 + 512**2) / (3 * 256 + 256**2))
    assert 1.9 < expected < 2.0
    assert table_exponent(case, by_width, "hidden_size", 8) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["full", "local"])
def test_attention_alone_equals_the_layer_without_its_projections(name):
    layer = make_layer(name, 128, 4)
    layer.build((None, None, 128))
    x = np.random.default_rng(1).normal(size=(1, 9, 128)).astype("float32")
    mask = np.array([True] * 7 + [False] * 2)[None, None, None, :]
    queries, (keys, values) = layer.heads(x, np.arange(9))
    mixed = attention_alone(layer, queries, keys, values, mask)
    assert mixed.shape == (1, 2, 9, 64)
    joined = np.array(mixed)[0].transpose(1, 0, 2).reshape(9, 128) @ np.array(layer.output_projection)
    np.testing.assert_allclose(joined, np.array(layer(x, mask))[0], atol=1e-5)


# The plot.
