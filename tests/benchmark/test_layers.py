"""Exponents of exact power laws, the measurements, and their plot."""

import itertools
import math

import numpy as np
import pytest

from t2t_lite.benchmark.layers import (
    CASES,
    FITTED_LENGTHS,
    LENGTHS,
    Point,
    Sweep,
    attention_alone,
    exponent,
    make_layer,
    plot,
    slope,
    table_exponent,
)


def points_of(seconds, memory, lengths=(64, 128, 512), widths=(256,)):
    """Points whose time and memory are functions of length and width."""
    return [Point(n, d, seconds(n, d), memory(n, d)) for n in lengths for d in widths]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, -1.0])
def test_the_slope_of_a_power_law_is_its_exponent_for_any_factor(power):
    x = (3, 5, 80, 1000)
    for factor in (1e-6, 1.0, 7e4):
        assert slope(x, [factor * number**power for number in x]) == pytest.approx(power, abs=1e-6)


def test_slope_is_the_least_squares_fit_in_logarithms():
    x, y = (1, 2, 4, 8), (1.0, 3.0, 3.0, 9.0)
    logs = [(math.log(a), math.log(b)) for a, b in zip(x, y)]
    mean_x, mean_y = (sum(column) / len(logs) for column in zip(*logs))
    expected = sum((a - mean_x) * (b - mean_y) for a, b in logs) / sum((a - mean_x) ** 2 for a, _ in logs)
    assert slope(x, y) == pytest.approx(expected, abs=1e-9)


def test_a_measurement_of_zero_has_a_finite_slope():
    assert math.isfinite(slope((64, 128, 256), (0, 0, 4096)))


def test_exponents_are_fitted_for_seconds_and_memory_over_length_and_width():
    by_length = points_of(lambda n, d: 1e-9 * n**2, lambda n, d: 8 * n)
    assert exponent(by_length, "seconds", "length") == pytest.approx(2.0)
    assert exponent(by_length, "memory", "length") == pytest.approx(1.0)
    by_width = points_of(lambda n, d: 1e-9 * d**1.5, lambda n, d: d**2, (64,), (256, 512, 1024))
    assert exponent(by_width, "seconds", "hidden_size") == pytest.approx(1.5)
    assert exponent(by_width, "memory", "hidden_size") == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("name", "over_length", "over_width"),
    [("full", 2, 1), ("local", 1, 1), ("recurrent", 1, 2), ("convolution", 1, 2)],
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


def test_lengths_double_and_all_fitted_lengths_are_measured():
    assert all(longer == 2 * shorter for shorter, longer in itertools.pairwise(LENGTHS))
    assert set(FITTED_LENGTHS) <= set(LENGTHS)
    assert all(list(case.widths) == sorted(case.widths) for case in CASES.values())


@pytest.mark.parametrize("name", CASES)
def test_the_layer_of_each_case_keeps_the_input_shape(name):
    layer = make_layer(name, 128, 4)
    layer.build((None, None, 128))
    x = np.random.default_rng(1).normal(size=(2, 9, 128)).astype("float32")
    assert layer(x, np.ones((2, 1, 1, 9), bool)).shape == x.shape
    if name in ("full", "local"):
        assert (layer.num_heads, layer.key_size, layer.value_size) == (2, 64, 64)


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


def some_sweeps():
    by_width = (64,), (256, 512)
    return [
        Sweep(case, points_of(lambda n, d: 1e-6 * n, lambda n, d: 10 * n), points_of(lambda n, d: d, max, *by_width))
        for case in CASES.values()
    ]


PATHS = {"full": [(32, 1), (64, 1)], "local": [(32, 4), (64, 8)]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "start"), [("plot.png", b"\x89PNG\r\n\x1a\n"), ("plot.SVG", b"<?xml"), ("plot.pdf", b"%PDF")]
)
def test_a_plot_is_written_in_each_format(tmp_path, name, start):
    pytest.importorskip("matplotlib")
    plot(some_sweeps(), PATHS, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(start) and len(content) > 10_000
    assert [path.name for path in tmp_path.iterdir()] == [name]  # no temporary file is left
