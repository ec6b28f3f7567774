"""Measures and plots the layers of the paper's table 1: time and memory by length n and width d, and path lengths."""

import dataclasses
import gc
import itertools
import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from t2t_lite.arrays import Array
from t2t_lite.benchmark.process import in_a_process
from t2t_lite.layers.attention import attend
from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.recurrent import Recurrent
from t2t_lite.layers.self_attention import SelfAttention
from t2t_lite.system.tensorflow import import_tensorflow
from t2t_lite.visualization.figures import COLORS, make_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

LENGTHS = tuple(2**i for i in range(6, 14))  # 64 .. 8192
HEAD_SIZE = 64
KERNEL_SIZE = 3
# Exponents are fitted to these lengths, at which the table's term dominates the constant cost of a call.
FITTED_LENGTHS = (512, 1024, 2048, 4096, 8192)
PATH_LENGTHS = (32, 64, 128, 256)
PATH_NEIGHBORHOOD_SIZE = 16  # small compared with these lengths, so that paths need several layers
LAYERS = ("full", "local", "recurrent", "convolution", "separable_convolution", "dilated_convolution")
WIDTH = 8
# A time is the minimum over calls that together take at least this long, because other processes only add time.
SECONDS_OF_CALLS = 0.4
MIN_CALLS = 3


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
    points = in_a_process(measure_points, name, neighborhood_size, by_length, by_width)
    return Sweep(case, points[: len(by_length)], points[len(by_length) :])


def measure_whole_layer(name: str, neighborhood_size: int, length: int) -> Point:
    """Measures an attention layer with its projections, as a model uses it, in a separate process."""
    sizes = [(length, CASES[name].hidden_size)]
    return in_a_process(measure_points, name, neighborhood_size, sizes, [], True)[0]


def measure_points(
    name: str,
    neighborhood_size: int,
    by_length: Sequence[tuple[int, int]],
    by_width: Sequence[tuple[int, int]],
    whole: bool = False,
) -> list[Point]:
    """Measures points in the given order.

    Lengths must ascend, because memory that stays allocated after a longer sequence would count for a shorter one.
    """
    import_tensorflow()
    sizes = (*by_length, *by_width)
    _seconds(_make_call(CASES[name], LENGTHS[0], sizes[0][1], neighborhood_size, whole))  # one-time allocations
    gc.collect()
    at_start = _resident("VmRSS")
    points = []
    for length, hidden_size in sizes:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        seconds = _seconds(_make_call(CASES[name], length, hidden_size, neighborhood_size, whole))
        points.append(Point(length, hidden_size, seconds, max(_resident("VmHWM") - at_start, 0)))
    # Time each point again later, because another process may slow down all calls for a point.
    again = [_seconds(_make_call(CASES[name], *size, neighborhood_size, whole)) for size in sizes]
    return [dataclasses.replace(point, seconds=min(point.seconds, other)) for point, other in zip(points, again)]


def _make_call(case: Case, length: int, hidden_size: int, neighborhood_size: int, whole: bool) -> Callable[[], None]:
    layer = make_layer(case.name, hidden_size, neighborhood_size)
    layer.build((None, None, hidden_size))
    x = keras.random.normal((case.batch, length, hidden_size), seed=1)
    mask = tf.ones((case.batch, 1, 1, length), tf.bool)
    if whole or case.name not in ("full", "local"):
        run = tf.function(lambda: layer(x, mask))
    else:
        queries, (keys, values) = layer.heads(x, tf.range(length))
        run = tf.function(lambda: attention_alone(layer, queries, keys, values, mask))
    return lambda: run().numpy()


def make_layer(name: str, hidden_size: int, neighborhood_size: int) -> keras.Layer:
    """Returns an unbuilt layer of table 1, for an encoder."""
    heads = max(hidden_size // HEAD_SIZE, 1)
    if name == "full":
        return SelfAttention(hidden_size, heads, causal=False)
    if name == "local":
        return LocalSelfAttention(hidden_size, heads, False, neighborhood_size)
    if name == "recurrent":
        return Recurrent(hidden_size, causal=False)
    return Convolution(hidden_size, False, KERNEL_SIZE, separable=name == "separable_convolution")


def attention_alone(layer: keras.Layer, queries: Array, keys: Array, values: Array, mask: Array) -> Array:
    """Returns the output of a layer's attention without projections, float [batch, heads, length, size]."""
    if isinstance(layer, LocalSelfAttention):
        return layer.attend_in_blocks(queries, keys, values, mask)
    return attend(queries, keys, values, mask)[0]


def _seconds(call: Callable[[], None]) -> float:
    call()  # traces the graph
    times = []
    while len(times) < MIN_CALLS or sum(times) < SECONDS_OF_CALLS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _resident(what: str) -> int:
    """Returns the resident memory of this process in bytes, current (VmRSS) or peak (VmHWM). Linux only."""
    if (match := re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())) is None:
        raise ValueError(f"/proc/self/status has no {what}")
    return 1024 * int(match[1])


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
        layer = Convolution(WIDTH, causal=False, kernel_size=KERNEL_SIZE, dilation=dilations[index % len(dilations)])
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
        axes.set(xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)
    labels = [f"{name}\n{works[name]}" if name in works else name for name in lines]
    figure.legend(lines.values(), labels, loc="outside right center", labelspacing=1.0)
    figure.suptitle("Table 1 of “Attention Is All You Need”, measured")
    save(figure, file)


def _line(axes: "Axes", x: Sequence[int], y: Sequence[float], color: str, thickness: float = 1.5) -> "Line2D":
    """Draws a line with markers. `thickness` is in typographic points."""
    return axes.plot(x, y, marker="o", color=color, linewidth=thickness, markersize=thickness + 4.5)[0]
