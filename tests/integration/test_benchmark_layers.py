"""t2t-lite-benchmark --layers as a user runs it, on short sequences, and its errors."""

import re

import pytest

from t2t_lite.benchmark.layers import CASES, LAYERS


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
    assert {name: (row[1], row[4]) for name, row in fitted.items()} == {
        "full": ("2.00", "1.00"),
        "local": ("1.00", "1.00"),
        "recurrent": ("1.00", "2.00"),
        "convolution": ("1.00", "2.00"),
        "separable_convolution": ("1.00", "2.00"),
    }
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
