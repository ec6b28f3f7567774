"""Plots the learning rates of hyperparameter sets, and the number of parameters in each part of their models."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from t2t_lite.config import HParams
from t2t_lite.schedules import learning_rate
from t2t_lite.visualization.figures import COLORS, make_figure, save

_POINTS = 300  # points on a learning rate curve, besides the ends of warm-up and decay
_MILLION = 1e6


class Counted(NamedTuple):
    hparams: HParams
    parameters: Mapping[str, int]


def plot_settings(sets: Mapping[str, Counted], file: Path) -> None:
    """Plots the number of parameters in each part as bars and, beside them, the learning rate over train_steps.

    Each set has its own colour, so there may be at most `len(COLORS)` sets. The file is written atomically.
    """
    parts = list(dict.fromkeys(part for each in sets.values() for part in each.parameters))
    figure = make_figure(13, 3.5 + 0.08 * len(parts) * len(sets))
    bars, rates = figure.subplots(1, 2)
    height = 0.8 / len(sets)
    schedules = []
    for hparams in [each.hparams for each in sets.values()]:
        last = hparams.train_steps
        turns = (hparams.learning_rate_warmup_steps, hparams.learning_rate_decay_steps)  # the ends of warm-up and decay
        even = np.linspace(1, last, min(last, _POINTS)).round().astype(int).tolist()
        steps = sorted({*even, *(step for step in turns if 1 <= step <= last)})
        schedules.append((steps, [float(learning_rate(step, hparams)) for step in steps]))
    for number, ((name, each), color) in enumerate(zip(sets.items(), COLORS)):
        places = [place + (number - (len(sets) - 1) / 2) * height for place in range(len(parts))]
        millions = [each.parameters.get(part, 0) / _MILLION for part in parts]
        label = f" {name}: {sum(millions):.2f} million parameters"  # matplotlib hides labels that begin with "_"
        bars.barh(places, millions, height, color=color, label=label)
        # Where schedules are equal, earlier lines are thicker, so that all lines remain visible.
        width = 1.5 + 2.5 * schedules[number + 1 :].count(schedules[number])
        rates.plot(*schedules[number], color=color, linewidth=width)
    bars.set_yticks(range(len(parts)), parts)
    bars.invert_yaxis()
    bars.set_xlabel("parameters, millions")
    bars.grid(alpha=0.3, axis="x")
    rates.set(xlabel="step", ylabel="learning rate", xlim=(0, None), ylim=(0, None))
    rates.grid(alpha=0.3)
    for axes in (bars, rates):
        axes.set_axisbelow(True)
    rates.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    rates.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    for text in figure.legend(loc="outside upper left", ncols=min(len(sets), 2), frameon=False).get_texts():
        text.set_parse_math(False)
    save(figure, file)
