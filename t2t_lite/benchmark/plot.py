"""Plots table 1: time and memory over lengths, time over widths, path lengths."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.benchmark.layers import Sweep
from t2t_lite.visualization.figures import COLORS, make_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def plot(sweeps: list[Sweep], paths: dict[str, list[tuple[int, int]]], file: Path) -> None:
    """Plots four panels with logarithmic axes and a legend beside them into a file, which appears once it is complete.

    `paths` has (positions, path length in layers) of each layer, by name.
    """
    figure = make_figure(13, 8)
    time, memory, width, path = figure.subplots(2, 2).flat
    works = {sweep.case.name: sweep.case.work for sweep in sweeps}
    colors = dict(zip((works | paths).keys(), itertools.cycle(COLORS)))
    lines: dict[str, Line2D] = {}
    for sweep in sweeps:
        name, lengths = sweep.case.name, [point.length for point in sweep.by_length]
        lines[name] = _line(time, lengths, [point.seconds for point in sweep.by_length], colors[name])
        _line(memory, lengths, [point.memory / 2**20 for point in sweep.by_length], colors[name])
        widths = [point.hidden_size for point in sweep.by_width]
        _line(width, widths, [point.seconds for point in sweep.by_width], colors[name])
    drawn = list(paths.values())
    for number, (name, points) in enumerate(paths.items()):
        lengths, layers = zip(*points)
        # Some layers have equal paths: the first ones are thicker, so that all are seen.
        line = _line(path, lengths, layers, colors[name], thickness=1.5 + 3.5 * drawn[number + 1 :].count(points))
        lines.setdefault(name, line)
    for axes, x, y in (
        (time, "length n", "seconds per forward pass"),
        (memory, "length n", "peak memory, MiB"),
        (width, "width d", "seconds per forward pass"),
        (path, "length n", "maximum path length, layers"),
    ):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(alpha=0.3)
    labels = [f"{name}\n{works[name]}" if name in works else name for name in lines]
    figure.legend(lines.values(), labels, loc="outside right center", labelspacing=1.0)
    figure.suptitle("Table 1 of “Attention Is All You Need”, measured")
    save(figure, file)


def _line(axes: "Axes", x: Sequence[int], y: Sequence[float], color: str, thickness: float = 1.5) -> "Line2D":
    """Draws a line with points; `thickness` in points of print."""
    return axes.plot(x, y, marker="o", color=color, linewidth=thickness, markersize=thickness + 4.5)[0]
