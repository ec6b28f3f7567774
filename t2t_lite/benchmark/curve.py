"""Plots a run's evaluations on the dev split over its checkpoints."""

from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.files import written_whole
from t2t_lite.scoring.metric import is_of_outputs, label_of

# The metric of tokens that is plotted; all metrics of outputs are.
_OF_TOKENS = "perplexity"


def plot_curve(evaluations: dict[int, dict[str, float]], title: str, file: Path) -> None:
    """Plots perplexity over steps, and the metrics of outputs if the evaluations decoded, into a file.

    Args:
      evaluations: {step: {figure: value}}, from `read_evaluations`.
      title: the title of the plot.
      file: where to write; the file appears once it is complete.

    Raises:
      UserError: if there is nothing to plot.
    """
    names = dict.fromkeys([_OF_TOKENS, *(name for figures in evaluations.values() for name in figures)])
    shown = [name for name in names if name == _OF_TOKENS or is_of_outputs(name)]
    shown = [name for name in shown if any(name in figures for figures in evaluations.values())]
    if not shown:
        raise UserError("nothing to plot: no checkpoint was evaluated; run t2t-lite-trainer --schedule=eval")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(shown), 3.5), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(shown), squeeze=False).flat, shown):
        points = [(step, figures[name]) for step, figures in sorted(evaluations.items()) if name in figures]
        axes.plot(*zip(*points), marker="o")
        axes.set_xlabel("step")
        axes.set_ylabel(f"dev {label_of(name)}")
        axes.grid(alpha=0.3)
    figure.suptitle(title)
    with written_whole(file) as partial:
        figure.savefig(partial, format=file.suffix[1:].lower(), dpi=120)
