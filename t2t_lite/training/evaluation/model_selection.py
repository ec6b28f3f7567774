"""Model selection: the metrics that rank checkpoints, the record of evaluations, and early stopping.

All decisions depend only on `evaluations.json` in the run directory, so that a resumed run makes the same decisions as
an uninterrupted one.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.files import write_text
from t2t_lite.metric import TOKENS, check_language, figure_name, metric_named, metric_needs, with_companions
from t2t_lite.options import SettingValue
from t2t_lite.runs.evaluations import best_steps, read_evaluations
from t2t_lite.training.options import TrainOptions

# The file with the step of a checkpoint that the trainer still has to evaluate.
_DUE = "evaluation_due"


def metrics_of_outputs(problem: Problem, *names: str) -> list[str]:
    """Returns the output metrics of an evaluation: the problem's metric, those in `names`, and their companions."""
    named = [metric_named(name, "metric") for name in names]
    return with_companions([problem.metric, *(metric for metric in named if metric_needs(metric) != TOKENS)])


def check_metric(name: str, problem: Problem, argument: str = "eval_metric") -> None:
    metric = metric_named(name, argument)
    needs = metric_needs(metric)
    if needs not in (TOKENS, metric_needs(problem.metric)):
        raise UserError(
            f"`{argument}={name}`: '{problem.name}' is scored by {figure_name(problem.metric)}; use that or loss",
            status=2,
        )
    check_language(metric, problem, argument)


def check_search(decode_hparams: str | Mapping[str, SettingValue], problem: Problem) -> None:
    if problem.decode_hparams.changed(decode_hparams).only_trees and not problem.writes_trees:
        raise UserError(
            f"only_trees=True is for parsing, but '{problem.name}' is not a parsing problem; omit only_trees", status=2
        )


def announce_evaluation(directory: Path, step: int) -> None:
    """Records, before a checkpoint is written, that it needs an evaluation, so that a resumed run does not skip it."""
    write_text(Path(directory) / _DUE, f"{step}\n")


def end_announcement(directory: Path) -> None:
    (Path(directory) / _DUE).unlink(missing_ok=True)


def is_evaluation_due(directory: Path, step: int) -> bool:
    path = Path(directory) / _DUE
    announced = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    return announced == str(step) and step not in read_evaluations(directory)


def add_evaluation(directory: Path, step: int, figures: dict[str, float]) -> None:
    everything = read_evaluations(directory) | {step: figures}
    lines = ",\n".join(f'"{step}": {json.dumps(everything[step])}' for step in sorted(everything))
    write_text(Path(directory) / "evaluations.json", f"{{\n{lines}\n}}\n")


def evaluations_without_gain(evaluations: dict[int, dict[str, float]], metric: str) -> int:
    """Returns the number of evaluations by a metric since the best one; 0 if there are none."""
    best = best_steps(evaluations, metric, 1)
    figure = figure_name(metric_named(metric, "eval_metric"))
    return sum(figure in figures for step, figures in evaluations.items() if step > best[0]) if best else 0


def check_evaluation(problem: Problem, options: TrainOptions) -> None:
    """Raises UserError if evaluation options do not fit the problem."""
    if options.eval_decode and not problem.has_inputs:
        raise UserError(
            f"`eval_decode`: '{problem.name}' has no inputs, so there are no outputs to score; omit it", status=2
        )
    check_metric(options.eval_metric, problem)
    check_search(options.decode_hparams, problem)
