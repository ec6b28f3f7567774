"""t2t-lite-benchmark --layers: exponents of exact power laws, path lengths against a search, and the command."""

import itertools
import math
import re

import numpy as np
import pytest

from t2t_lite.benchmark.layers import (
    CASES,
    LAYERS,
    Point,
    attention_alone,
    exponent,
    make_layer,
    path_length,
    slope,
    table_exponent,
    table_path_length,
)


def points_of(seconds, memory, lengths=(64, 128, 512), widths=(256,)):
    """Points whose time and memory are functions of length and width."""
    return [Point(n, d, seconds(n, d), memory(n, d)) for n in lengths for d in widths]


def test_exponents_of_power_laws_are_fitted_for_seconds_and_memory_over_length_and_width():
    x = (3, 5, 80, 1000)
    for power, factor in itertools.product((0.0, 0.5, 1.0, 2.0, -1.0), (1e-6, 1.0, 7e4)):
        assert slope(x, [factor * number**power for number in x]) == pytest.approx(power, abs=1e-6)
    by_length = points_of(lambda n, d: 1e-9 * n**2, lambda n, d: 8 * n)
    assert exponent(by_length, "seconds", "length") == pytest.approx(2.0)
    assert exponent(by_length, "memory", "length") == pytest.approx(1.0)
    by_width = points_of(lambda n, d: 1e-9 * d**1.5, lambda n, d: d**2, (64,), (256, 512, 1024))
    assert exponent(by_width, "seconds", "hidden_size") == pytest.approx(1.5)
    assert exponent(by_width, "memory", "hidden_size") == pytest.approx(2.0)


ALMOST_2 = math.log2((3 * 512 + 512**2) / (3 * 256 + 256**2))  # from width 256 to 512


@pytest.mark.parametrize(
    ("name", "over_length", "over_width"),
    [
        *(("full", 2, 1), ("local", 1, 1), ("recurrent", 1, 2), ("convolution", 1, 2)),
        ("separable_convolution", 1, ALMOST_2),
    ],
)
def test_the_exponents_of_table_1(name, over_length, over_width):
    case = CASES[name]
    by_length = points_of(lambda n, d: 1.0, lambda n, d: 1)
    widths = (256, 512) if name == "separable_convolution" else (256, 512, 2048)
    by_width = points_of(lambda n, d: 1.0, lambda n, d: 1, (64,), widths)
    assert table_exponent(case, by_length, "length", 8) == pytest.approx(over_length)
    assert table_exponent(case, by_width, "hidden_size", 8) == pytest.approx(over_width)
    assert 1.9 < ALMOST_2 < 2.0 and CASES["separable_convolution"].flops(10, 4, 8) == 3 * 10 * 4 + 10 * 4 * 4


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


def test_full_attention_needs_one_layer_and_the_others_one_step_per_position():
    assert [path_length("full", length, 4) for length in (2, 9)] == [1, 1]
    for name in ("recurrent", "convolution", "separable_convolution"):
        assert [path_length(name, length, 4) for length in (2, 3, 9)] == [1, 2, 8]


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
    layers = searched(length, lambda layer: [move * dilations[layer % len(dilations)] for move in (-1, 0, 1)])
    assert path_length("dilated_convolution", length, 4) == layers


def test_path_lengths_of_table_1():
    said = {name: table_path_length(name, 81, 9) for name in LAYERS}
    assert said.pop("dilated_convolution") == pytest.approx(4.0)  # 3 ** 4 = 81
    assert said == {"full": 1, "local": 9, "recurrent": 81, "convolution": 27, "separable_convolution": 27}
    assert table_path_length("dilated_convolution", 100, 9) == pytest.approx(math.log(100) / math.log(3))


@pytest.mark.heavy
def test_the_layers_of_table_1_are_measured_printed_and_plotted(command, tmp_path):
    pytest.importorskip("matplotlib")
    file = tmp_path / "plot.png"
    flags = ("--layers", "--neighborhood_size=16", "--max_length=128", f"--plot_file={file}")
    result = command("benchmark", *flags)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert re.match(r"float32 on the CPU, \d+ threads?; \d+ GFLOP/s", lines[0])
    assert "r = 16, k = 3" in lines[1]
    rows = [line.split() for line in lines]
    for name in CASES:
        head = rows.index([name, "64", "128"])
        times, memory, widths, times_of_widths = rows[head + 1 : head + 5]
        assert times[0] == "ms," and memory[:1] == ["MiB"] and widths[0] == "d" and times_of_widths[0] == "ms,"
        assert all(float(time) > 0 for time in (*times[-2:], *times_of_widths[-len(widths) + 1 :]))
        # 128^2 x 2048 multiplications take longer than 64^2 x 512, 16 times fewer, on every machine.
        assert name != "full" or float(times_of_widths[-1]) > float(times[-2])
    # work, then exponents: measured and of the table over n, of memory, measured and of the table over d
    fitted_head = next(number for number, line in enumerate(lines) if line.startswith("fitted exponents"))
    fitted = {row[0]: row[-5:] for row in rows[fitted_head + 1 : fitted_head + 1 + len(CASES)]}
    of_table = {"full": ("2.00", "1.00"), "local": ("1.00", "1.00")}
    of_table |= dict.fromkeys(("recurrent", "convolution", "separable_convolution"), ("1.00", "2.00"))
    assert {name: (row[1], row[4]) for name, row in fitted.items()} == of_table
    path_head = next(number for number, line in enumerate(lines) if line.startswith("path length, layers"))
    paths = {row[0]: row[1:5] for row in rows[path_head + 1 : path_head + 1 + len(LAYERS)]}
    assert paths["full"] == ["1", "1", "1", "1"]
    assert paths["local"] == ["4", "8", "16", "32"]  # each layer reaches 8 positions further
    assert paths["recurrent"] == paths["convolution"] == paths["separable_convolution"] == ["31", "63", "127", "255"]
    assert int(paths["dilated_convolution"][-1]) < 20
    assert lines[-1] == f"plot: {file}"
    assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert [path.name for path in tmp_path.iterdir()] == ["plot.png"]


def test_a_directory_as_plot_file_is_refused_before_measuring(command, tmp_path):
    result = command("benchmark", "--layers", f"--plot_file={tmp_path}")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1 and f"--plot_file={tmp_path} is a directory" in result.stderr
    assert list(tmp_path.iterdir()) == []
