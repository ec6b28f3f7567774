"""Measures and plots the time and memory of the layers in the paper's table 1, by length n and width d."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from t2t_lite.benchmark.process import call_by_name, in_a_process
from t2t_lite.visualization.figures import COLORS, make_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

LENGTHS = tuple(2**i for i in range(6, 14))  # 64 .. 8192
HEAD_SIZE = 64
KERNEL_SIZE = 3
# Measured in a process that has TensorFlow, which this one does not need.
_POINTS = "t2t_lite.benchmark.layer_points:measure_points"
# Exponents are fitted to these lengths, at which the table's term dominates the constant cost of a call.
FITTED_LENGTHS = (512, 1024, 2048, 4096, 8192)
PATH_LENGTHS = (32, 64, 128, 256)
PATH_NEIGHBORHOOD_SIZE = 16  # small compared with these lengths, so that paths need several layers


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of table 1."""

    name: str  # the layer
    work: str  # the complexity per layer in the table
    flops: Callable[[int, int, int], float]  # (n, d, r) -> the number of multiply-adds in the table's term
    batch: int  # number of sequences; a recurrent layer needs several, so that matrix products dominate its overhead
    hidden_size: int  # d when n varies
    length: int  # n when d varies
    widths: tuple[int, ...]  # the values of d when d varies


CASES = {
    case.name: case
    for case in (
        Case("full", "n^2 d", lambda n, d, r: n * n * d, 1, 512, 1024, (256, 512, 1024, 2048)),
        Case("local", "r n d", lambda n, d, r: r * n * d, 1, 512, 1024, (256, 512, 1024, 2048)),
        Case("recurrent", "n d^2", lambda n, d, r: n * d * d, 16, 256, 64, (512, 1024, 2048)),
        Case("convolution", "k n d^2", lambda n, d, r: KERNEL_SIZE * n * d * d, 1, 512, 1024, (256, 512, 1024, 2048)),
        Case(
            "separable_convolution",
            "k n d + n d^2",
            lambda n, d, r: KERNEL_SIZE * n * d + n * d * d,
            1,
            512,
            1024,
            (512, 1024, 2048, 4096),
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Point:
    """One measurement: the seconds per forward pass, and the growth of the process's peak memory in bytes.

    The memory includes the input, weights and all intermediate tensors; memory that stays allocated after shorter
    sequences is reused. When d varies, `memory` is meaningless, because these points are measured last.
    """

    length: int
    hidden_size: int
    seconds: float
    memory: int


@dataclasses.dataclass(frozen=True)
class Sweep:
    case: Case
    by_length: list[Point]
    by_width: list[Point]

    @property
    def fitted(self) -> list[Point]:
        """The points of `by_length` to which exponents are fitted."""
        long = [point for point in self.by_length if point.length in FITTED_LENGTHS]
        return long if len(long) > 1 else self.by_length

    def exponents(self, neighborhood_size: int) -> dict[str, float]:
        """Returns the exponents of "length" and of "hidden_size" in the measured time and in the table's formula."""
        exponents = {}
        for over, points in (("length", self.fitted), ("hidden_size", self.by_width)):
            exponents[f"{over} exponent"] = exponent(points, "seconds", over)
            exponents[f"{over} exponent of the table"] = table_exponent(self.case, points, over, neighborhood_size)
        return exponents


def measure(name: str, neighborhood_size: int, lengths: Sequence[int] = LENGTHS) -> Sweep:
    """Measures a layer of table 1 in a separate process, so that its memory is measured alone.

    `name` is one of CASES, `lengths` are ascending values of n, and `neighborhood_size` is r in local attention.
    Attention is measured without its four projections, because table 1 has no O(n d^2) term for attention.
    """
    case = CASES[name]
    by_length = [(n, case.hidden_size) for n in lengths]
    by_width = [(min(case.length, max(lengths)), d) for d in case.widths]
    points = in_a_process(call_by_name, _POINTS, name, neighborhood_size, by_length, by_width)
    return Sweep(case, points[: len(by_length)], points[len(by_length) :])


def measure_whole_layer(name: str, neighborhood_size: int, length: int) -> Point:
    """Measures an attention layer with its projections, as a model uses it, in a separate process."""
    size = length, CASES[name].hidden_size
    (point,) = in_a_process(call_by_name, _POINTS, name, neighborhood_size, [size], [], True)
    return point


def exponent(points: list[Point], of: str, over: str) -> float:
    """Returns the exponent p for which c * x^p fits the points best, by least squares on logarithms.

    `of` names the fitted values, "seconds" or "memory", and `over` names x, "length" or "hidden_size".
    """
    return slope([getattr(point, over) for point in points], [getattr(point, of) for point in points])


def table_exponent(case: Case, points: list[Point], over: str, neighborhood_size: int) -> float:
    """Returns the exponent that `exponent` would find at these points if times followed the table's formula."""
    flops = [case.flops(point.length, point.hidden_size, neighborhood_size) for point in points]
    return slope([getattr(point, over) for point in points], flops)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-12)), 1)[0])


def plot(sweeps: list[Sweep], paths: dict[str, list[tuple[int, int]]], file: Path) -> None:
    """Plots time and memory by length, time by width, and path length by length, all with logarithmic axes.

    `paths` has (positions, path length in layers) pairs for each layer, by name. The file is written atomically.
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
        # Some layers have equal path lengths. Earlier lines are thicker, so that all lines remain visible.
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
    """Draws a line with markers. `thickness` is in typographic points."""
    return axes.plot(x, y, marker="o", color=color, linewidth=thickness, markersize=thickness + 4.5)[0]
