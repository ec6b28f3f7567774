"""Draws charts of training with all runs overlaid: SVG elements for a report, and the plot for --curve."""

import math
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from t2t_lite.errors import UserError
from t2t_lite.metric import figure_label, is_of_outputs
from t2t_lite.report.reading import Evaluation, StoredRun, shown
from t2t_lite.visualization.figures import COLORS, figure_svg, html_style, make_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = (5.0, 3.2)  # inches; texts remain readable on a phone
_MOST_OF_LABEL = 48  # characters
_MOST_METRICS = 6  # maximum number of charts for metrics of outputs
_STYLES = ("-", "--", ":", "-.")  # for readers who cannot distinguish colours
_WIDE_RANGE = 1000.0  # an axis is logarithmic if the largest value is at least this many times the smallest
_FROM_ZERO = ("learning_rate", "target_tokens_per_second", "memory_bytes", "length-")
# The training metrics that have their own charts, with title, unit and factor.
_OF_TRAINING = {
    "learning_rate": ("Learning rate", "learning rate", 1.0),
    "gradient_norm": ("Gradient norm", "norm, before clipping", 1.0),
    "target_tokens_per_second": ("Speed", "target tokens per second", 1.0),
    "memory_bytes": ("Memory in use, the maximum so far", "GiB", 2.0**-30),
}
_COLUMNS = 3  # maximum number of columns of panels


class Chart(NamedTuple):
    title: str
    summary: str  # a one-sentence description, for readers who cannot see the chart
    svg: str


class Curve(NamedTuple):
    label: str
    run: int  # selects the colour and style
    steps: list[int]
    values: list[float]
    is_marked: bool = False  # whether each point has a marker, for evaluations


def curve_charts(runs: Sequence[StoredRun]) -> list[Chart]:
    """Returns the charts of training: losses, metrics of outputs, learning rate, gradient norm, speed and memory.

    Metrics that no run has are left out.
    """
    losses = []
    for place, (training, dev) in enumerate(zip(_curves(runs, "loss"), _curves(runs, "loss", is_of_dev=True))):
        name = f"{training.label}, " if len(runs) > 1 else ""
        # A single run gets two colours for its two curves.
        losses.append(training._replace(label=f"{name}training"))
        losses.append(dev._replace(label=f"{name}dev", run=place + (len(runs) == 1)))
    charts = [_chart("loss", "Loss of training and dev", "nats per target token", losses)]
    measured = dict.fromkeys(name for run in runs for figures in run.evaluations.values() for name in figures)
    for name in [name for name in measured if is_of_outputs(name)][:_MOST_METRICS]:
        label, curves = figure_label(name), _curves(runs, name, is_of_dev=True)
        charts.append(_chart(f"dev-{name}", f"{label} of the dev split", label, curves))
    for name, (title, unit, factor) in _OF_TRAINING.items():
        charts.append(_chart(name, title, unit, _curves(runs, name, factor=factor)))
    return [chart for chart in charts if chart]


def length_chart(name: str, split: str, label: str, evaluations: Sequence[tuple[str, Evaluation]]) -> Chart | None:
    """Returns the chart of scores by number of source words; None if none are stored.

    `name` must be unique among charts. `split` includes the name of the problem.
    """
    names = sorted({words: None for _, each in evaluations for words, *_ in each.by_length}, key=first_number)
    curves = [
        _curve(title, run, [(names.index(words), score) for words, _, score in evaluation.by_length], True)
        for run, (title, evaluation) in enumerate(evaluations)
    ]
    return _chart(f"length-{name}", f"{label} by length, {split}", label, curves, "source words", names)


def first_number(words: str) -> int:
    """Returns the number with which a range of lengths such as "11-20" begins."""
    return int("".join(filter(str.isdigit, words.partition("-")[0])) or 0)


def _curves(
    runs: Sequence[StoredRun], name: str, is_of_dev: bool = False, factor: float = 1.0, is_smoothed: bool = False
) -> list[Curve]:
    """Returns the curve of a metric for each run, from its reports on training or from its evaluations of dev.

    A smoothed one is a moving average over at most 5 reports, or fewer in short runs.
    """
    curves = []
    for place, run in enumerate(runs):
        rows = run.evaluations.items() if is_of_dev else ((int(each["step"]), each) for each in run.reports)
        points = [(step, figures.get(name, math.nan) * factor) for step, figures in rows]
        if is_smoothed:
            points = [(step, value) for step, value in points if math.isfinite(value)]
            half, values = min(2, len(points) // 20), [value for _, value in points]
            windows = (values[max(0, row - half) : row + half + 1] for row in range(len(values)))
            points = [(step, sum(window) / len(window)) for (step, _), window in zip(points, windows)]
        curves.append(_curve(run.name, place, points, is_of_dev))
    return curves


def _curve(label: str, run: int, points: Iterable[tuple[int, float]], is_marked: bool = False) -> Curve:
    # matplotlib cannot place ticks on an axis with values near the largest float.
    finite = thinned([(step, value) for step, value in points if abs(value) < 1e30])
    return Curve(label, run, [step for step, _ in finite], [value for _, value in finite], is_marked)


def thinned(points: list[tuple[int, float]], most: int = 400) -> list[tuple[int, float]]:
    """Returns at most `most` points: both ends, and the lowest and highest of each part, so that peaks remain."""
    if len(points) <= most:
        return points
    parts = most // 2 - 1
    kept = {0, len(points) - 1}
    for part in range(parts):
        rows = range(part * len(points) // parts, (part + 1) * len(points) // parts)
        kept |= {min(rows, key=lambda row: points[row][1]), max(rows, key=lambda row: points[row][1])}
    return [points[row] for row in sorted(kept)]


def _chart(
    name: str, title: str, unit: str, curves: Sequence[Curve], axis: str = "step", ticks: Sequence[str] = ()
) -> Chart | None:
    """Returns a chart of curves; None if there is nothing to draw. `name` must be unique among charts.

    `unit` and `axis` label the vertical and the horizontal axis. `ticks` label the positions 0, 1 ... on the horizontal
    axis; if there are none, numbers do.
    """
    if not (curves := [curve for curve in curves if curve.values]):
        return None
    with html_style():
        figure = make_figure(*_SIZE)
        axes = figure.add_subplot()
        _draw(axes, curves, axis, unit)
        if ticks:
            axes.set_xticks(range(len(ticks)), list(map(_label, ticks)))
        values = [value for curve in curves for value in curve.values]
        if name.startswith(_FROM_ZERO) and min(values) >= 0:
            axes.set_ylim(bottom=0)
        elif min(values) > 0 and max(values) > _WIDE_RANGE * min(values):  # as after divergence
            axes.set_yscale("log")
        if len(curves) > 1:
            figure.legend(loc="outside upper left", ncols=2 if len(curves) < 9 else 3, frameon=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about characters that are missing in the font used to measure text
            svg = figure_svg(figure, name)
    ends = "; ".join(f"{each.label}: {_places(each, axis, ticks)}" for each in curves[:8])
    return Chart(title, f"{title}, by {axis}. {ends}.", svg)


def _draw(axes: "Axes", curves: Sequence[Curve], axis: str, unit: str) -> None:
    for curve in curves:
        axes.plot(
            curve.steps,
            curve.values,
            color=COLORS[curve.run % len(COLORS)],
            linestyle=_STYLES[curve.run % len(_STYLES)],
            linewidth=1.6 if curve.is_marked else 1.1,
            marker="o" if curve.is_marked and len(curve.steps) <= 60 else None,
            markersize=3.5,
            label=_label(curve.label),
        )
    axes.set(xlabel=axis, ylabel=_label(unit))
    axes.grid(alpha=0.25, linewidth=0.6)


def _label(text: str) -> str:
    """Prepares a text for matplotlib: shortens it, replaces control characters and escapes formulas."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    short = printable if len(printable) <= _MOST_OF_LABEL else f"{printable[:_MOST_OF_LABEL]}..."
    return short.replace("$", r"\$").lstrip("_") or "run"  # matplotlib hides labels that begin with "_"


def _places(curve: Curve, axis: str, ticks: Sequence[str]) -> str:
    def place(row: int) -> str:
        return f"{shown(curve.values[row])} at {ticks[curve.steps[row]] if ticks else f'{axis} {curve.steps[row]}'}"

    return place(0) if len(curve.values) == 1 else f"{place(0)}, {place(-1)}"


def plot_curves(runs: Sequence[StoredRun], file: Path) -> None:
    """Plots a panel for each metric, with a line for each run. The file is written atomically.

    The panels are training loss, smoothed, and learning rate, then dev loss, dev perplexity and, if evaluations
    decoded, the metrics of outputs. Metrics that no run has are left out. A run has the same colour in all panels. The
    speed is left out, because on a shared machine it says more about the other work than about the run.
    """
    measured = dict.fromkeys(name for run in runs for figures in run.evaluations.values() for name in figures)
    of_dev = ["loss", "perplexity", *(name for name in measured if is_of_outputs(name))]
    drawn = [
        ("training loss (smoothed)", _curves(runs, "loss", is_smoothed=True)),
        ("learning rate", _curves(runs, "learning_rate")),
        *((f"dev {figure_label(name)}", _curves(runs, name, is_of_dev=True)) for name in of_dev),
    ]
    if not (drawn := [(title, curves) for title, curves in drawn if any(curve.values for curve in curves)]):
        raise UserError(
            "there is nothing to plot because no checkpoint was evaluated; run t2t-lite-trainer --schedule=eval"
        )
    rows = math.ceil(len(drawn) / _COLUMNS)
    columns = math.ceil(len(drawn) / rows)
    figure = make_figure(4.5 * columns, 3.5 * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[len(drawn) :]:
        axes.remove()
    for axes, (title, curves) in zip(panels, drawn):
        _draw(axes, curves, "step", title)
    if len(runs) == 1:
        figure.suptitle(runs[0].name, parse_math=False)
    else:
        # matplotlib hides names that begin with "_".
        names = [f" {run.name}" if run.name.startswith("_") else run.name for run in runs]
        legend = figure.legend(panels[0].lines, names, loc="outside lower center", ncols=min(len(runs), 4))
        for text in legend.get_texts():
            text.set_parse_math(False)
    save(figure, file)
