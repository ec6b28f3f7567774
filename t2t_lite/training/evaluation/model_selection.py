"""Model selection: ranks checkpoints by their evaluations, and decides on early stopping.

`evaluations.json` in a run directory is the only record. The trainer or a separate evaluator writes it, and everything
here is a function of it, so a resumed training decides like an uninterrupted one.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.files import write_text
from t2t_lite.settings import SettingValue

METRICS = ("loss", "perplexity", "accuracy", "bleu", "f1")
# The figure that decoding the dev split yields, by the problem's metric.
_FIGURES = {"bleu": "bleu", "parseval": "f1"}
HIGHER_IS_BETTER = {"loss": False, "perplexity": False, "accuracy": True, "bleu": True, "f1": True}


def figure_of(problem: Problem) -> str:
    """Returns the name of the figure that decoding the dev split yields: "bleu", or "f1" for a parsing problem."""
    return _FIGURES[problem.metric]


def check_metric(metric: str, problem: Problem) -> None:
    """Raises UserError if evaluations of a problem do not include a metric."""
    if metric in ("bleu", "f1") and metric != figure_of(problem):
        raise UserError(
            f"`eval_metric={metric}`: '{problem.name}' is scored by {figure_of(problem)}; use that, or loss", status=2
        )


def check_search(decode_hparams: str | Mapping[str, SettingValue], problem: Problem) -> None:
    """Raises UserError if changes to a problem's search settings are invalid or do not suit it."""
    if problem.decode_hparams.changed(decode_hparams).only_trees and problem.metric != "parseval":
        raise UserError(f"only_trees=True is for parsing, and '{problem.name}' is not", status=2)


def read_evaluations(directory: Path) -> dict[int, dict[str, float]]:
    """Returns {step: {metric: value}} of a run directory, sorted by step.

    Raises:
      UserError: if the file is damaged.
    """
    path = Path(directory) / "evaluations.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {int(step): dict(figures) for step, figures in sorted(found.items(), key=lambda item: int(item[0]))}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error}); remove it to have the checkpoints evaluated again") from error


def add_evaluation(directory: Path, step: int, figures: dict[str, float]) -> None:
    """Records the figures of one checkpoint."""
    everything = read_evaluations(directory) | {step: figures}
    lines = ",\n".join(f'"{step}": {json.dumps(everything[step])}' for step in sorted(everything))
    write_text(Path(directory) / "evaluations.json", f"{{\n{lines}\n}}\n")


def best_steps(evaluations: dict[int, dict[str, float]], metric: str, n: int) -> list[int]:
    """Returns the n best steps by a metric, best first, ties by earlier step; skips steps without the metric."""
    sign = -1.0 if HIGHER_IS_BETTER[metric] else 1.0
    having = [step for step, figures in evaluations.items() if metric in figures]
    return sorted(having, key=lambda step: (sign * evaluations[step][metric], step))[:n]


def evaluations_without_gain(evaluations: dict[int, dict[str, float]], metric: str) -> int:
    """Returns the number of evaluations after the best one so far."""
    best = best_steps(evaluations, metric, 1)
    return sum(metric in figures for step, figures in evaluations.items() if step > best[0]) if best else 0
