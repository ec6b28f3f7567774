"""Reads the reports and evaluations of a run, as columns, from the files that training writes."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from t2t_lite.training.evaluation.model_selection import read_evaluations

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
    return {name: [_number_or_nan(row.get(name)) for row in rows] for name in names}


def _number_or_nan(value: object) -> float:
    return value if isinstance(value, int | float) else math.nan
