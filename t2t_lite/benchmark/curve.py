"""Plots runs over their steps: the reports of training, and the evaluations on the dev split."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from t2t_lite.errors import UserError
from t2t_lite.scoring.metric import is_of_outputs, label_of
from t2t_lite.training.monitoring.history import Columns, kept_reports, read_evaluation_columns, read_reports
from t2t_lite.visualization.figures import make_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The figures of training that are plotted, and those of evaluations with teacher forcing; all metrics of outputs are.
_OF_TRAINING = {
    "loss": "training loss (smoothed)",
    "learning_rate": "learning rate",
    "target_tokens_per_second": "target tokens/s",
}
_OF_TOKENS = ("loss", "perplexity")
_SMOOTHED = "loss"
_HALF_WINDOW = 2  # the moving average of the training loss is over this many reports before and after each
_COLUMNS = 3  # of panels


class Curves(NamedTuple):
    """What is plotted of a run, by step."""

    name: str
    training: Columns
    evaluations: Columns


def read_curves(run: Path, name: str) -> Curves:
    """Returns the curves of a run directory.

    Raises:
      UserError: if a file is damaged.
    """
    reports = read_reports(run)
    kept = kept_reports(reports["step"])
    training = {figure: [values[row] for row in kept] for figure, values in reports.items()}
    return Curves(name, training, read_evaluation_columns(run))


def plot_curves(runs: Sequence[Curves], file: Path) -> None:
    """Plots a panel for each figure, with a line for each run, into a file.

    The panels are training loss (a moving average of at most 5 reports), learning rate and speed; then dev loss, dev
    perplexity, and the metrics of outputs if the evaluations decoded. Figures that no run has are left out.

    Args:
      runs: one or several; the same colour is the same run in all panels.
      file: where to write; the file appears once it is complete.

    Raises:
      UserError: if there is nothing to plot.
    """
    of_training = [name for name in _OF_TRAINING if any(_has(run.training, name) for run in runs)]
    evaluated = dict.fromkeys([*_OF_TOKENS, *(name for run in runs for name in run.evaluations)])
    of_dev = [
        name
        for name in evaluated
        if name != "step"
        and (name in _OF_TOKENS or is_of_outputs(name))
        and any(_has(run.evaluations, name) for run in runs)
    ]
    if not of_training and not of_dev:
        raise UserError("nothing to plot: no checkpoint was evaluated; run t2t-lite-trainer --schedule=eval")
    count = len(of_training) + len(of_dev)
    rows, columns = math.ceil(count / _COLUMNS), min(count, _COLUMNS)
    figure = make_figure(4.5 * columns, 3.5 * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[count:]:
        axes.remove()
    for axes, name in zip(panels, of_training):
        _draw(axes, [run.training for run in runs], name, _OF_TRAINING[name], smoothed=name == _SMOOTHED)
    for axes, name in zip(panels[len(of_training) :], of_dev):
        _draw(axes, [run.evaluations for run in runs], name, f"dev {label_of(name)}", marker="o")
    _name_runs(figure, [run.name for run in runs])
    save(figure, file)


def _has(columns: Columns, name: str) -> bool:
    return any(math.isfinite(value) for value in columns.get(name, ()))


def _draw(
    axes: "Axes", runs: Sequence[Columns], name: str, label: str, marker: str = "", smoothed: bool = False
) -> None:
    """Draws one figure of all runs."""
    for number, columns in enumerate(runs):
        points = [(step, value) for step, value in zip(columns["step"], columns.get(name, ())) if math.isfinite(value)]
        if not points:
            continue
        steps, values = zip(*points)
        shown = _moving_average(values) if smoothed else values
        axes.plot(steps, shown, marker=marker, color=_color(number), linestyle=_dashes(number))
    axes.set_xlabel("step")
    axes.set_ylabel(label, parse_math=False)
    axes.grid(alpha=0.3)


def _moving_average(values: Sequence[float]) -> list[float]:
    """Returns the mean of each value and the two before and after it; of fewer if there are less than 40 values."""
    half = min(_HALF_WINDOW, len(values) // 20)
    return [float(np.mean(values[max(0, place - half) : place + half + 1])) for place in range(len(values))]


def _color(number: int) -> str:
    return f"C{number % 10}"  # matplotlib has ten


def _dashes(number: int) -> Literal["-", "--", ":", "-."]:
    return ("-", "--", ":", "-.")[number // 10 % 4]


def _name_runs(figure: "Figure", names: Sequence[str]) -> None:
    """Adds a title for one run, a legend for several."""
    if len(names) == 1:
        figure.suptitle(names[0], parse_math=False)
        return
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=_color(number), linestyle=_dashes(number)) for number in range(len(names))]
    # matplotlib leaves out names that begin with "_".
    shown = [f" {name}" if name.startswith("_") else name for name in names]
    legend = figure.legend(lines, shown, loc="outside lower center", ncols=min(len(names), 4))
    for text in legend.get_texts():
        text.set_parse_math(False)
