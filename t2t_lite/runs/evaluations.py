"""What a run's files tell about its training: evaluations, which rank its checkpoints, and reports.

`evaluations.json` is the only record of evaluations. The trainer or a separate evaluator writes it. All decisions
depend only on it, so that a resumed run makes the same decisions as an uninterrupted one.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from t2t_lite.errors import UserError
from t2t_lite.files import write_text
from t2t_lite.metric import figure_name, metric_named
from t2t_lite.registry import METRICS


def read_evaluations(directory: Path) -> dict[int, dict[str, float]]:
    """Returns {step: {metric: value}} of a run directory, sorted by step. Raises a UserError if the file is damaged."""
    path = Path(directory) / "evaluations.json"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return dict(sorted({int(step): dict(figures) for step, figures in stored.items()}.items()))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is damaged ({error}); remove it, and evaluate again with t2t-lite-trainer --schedule=eval"
        ) from error


def best_steps(evaluations: dict[int, dict[str, float]], metric: str, n: int) -> list[int]:
    """Returns the n best steps that have a metric, best first; in ties, earlier steps first."""
    metric = metric_named(metric, "eval_metric")
    sign, figure = -1.0 if METRICS.fact(metric, "higher_is_better", True) else 1.0, figure_name(metric)
    # A score that is NaN is never the best.
    having = [step for step, figures in evaluations.items() if not math.isnan(figures.get(figure, math.nan))]
    return sorted(having, key=lambda step: (sign * evaluations[step][figure], step))[:n]


# The file with the step of a checkpoint that the trainer still has to evaluate.
_DUE = "evaluation_due"


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


# Columns of equal length by name; NaN marks missing values. `pandas.DataFrame` accepts them directly.
Columns: TypeAlias = dict[str, list[float]]


class Log(NamedTuple):
    lines: list[dict[str, Any]]
    damaged: int  # number of lines that are not JSON objects; a killed process leaves one as its last line


def read_log(directory: Path) -> Log:
    """Returns the lines of a run's log; none if there is no log."""
    path = Path(directory) / "log.jsonl"
    if not path.exists():
        return Log([], 0)
    rows = [_report(line) for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return Log([row for row in rows if row], sum(not row for row in rows))


def read_reports(directory: Path) -> Columns:
    """Returns the training reports of a run: "step" and the metrics in `log.jsonl`, in the order they were written."""
    return _columns(row for row in read_log(directory).lines if row.get("part") == "train")


def kept_reports(steps: Sequence[float]) -> list[int]:
    """Returns the indices of the reports to keep, so that steps increase. `steps` has the step of every report.

    A resumed run repeats the steps after its checkpoint; the earlier reports of these steps are dropped.
    """
    kept: list[int] = []
    for row, step in enumerate(steps):
        while kept and steps[kept[-1]] >= step:
            kept.pop()
        kept.append(row)
    return kept


def read_evaluation_columns(directory: Path) -> Columns:
    """Returns the evaluations of a run: "step" and the metrics in `evaluations.json`, in the order of steps."""
    return _columns({"step": step, **figures} for step, figures in read_evaluations(directory).items())


def _report(line: str) -> dict[str, Any]:
    """Returns the report in a line; {} for an incomplete line from a killed process."""
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return report if isinstance(report, dict) else {}


def _columns(rows: Iterable[Mapping[str, object]]) -> Columns:
    rows = [{name: value for name, value in row.items() if name not in ("part", "time", "samples")} for row in rows]
    names = dict.fromkeys(["step", *(name for row in rows for name in row)])
    values = {name: [row.get(name) for row in rows] for name in names}
    return {name: [each if isinstance(each, int | float) else math.nan for each in row] for name, row in values.items()}
