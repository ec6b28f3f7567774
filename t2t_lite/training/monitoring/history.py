"""Reads the figures of a run as columns, from the files that a training writes."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from t2t_lite.training.evaluation.model_selection import read_evaluations

# Columns of equal length by name; a missing figure is NaN. `pandas.DataFrame` takes them as they are.
Columns: TypeAlias = dict[str, list[float]]


def read_reports(directory: Path) -> Columns:
    """Returns the reports of a run's steps: "step" and the figures of `log.jsonl`, in the order they were written."""
    path = Path(directory) / "log.jsonl"
    if not path.exists():
        return {"step": []}
    rows = map(_report, path.read_text(encoding="utf-8", errors="replace").splitlines())
    return _columns(row for row in rows if row.get("part") == "train")


def read_evaluation_columns(directory: Path) -> Columns:
    """Returns the evaluations of a run: "step" and the figures of `evaluations.json`, by step."""
    return _columns({"step": step, **figures} for step, figures in read_evaluations(directory).items())


def _report(line: str) -> dict[str, object]:
    """Returns the report in a line; {} for a line that a killed process has left incomplete."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _columns(rows: Iterable[Mapping[str, object]]) -> Columns:
    rows = [{name: value for name, value in row.items() if name not in ("part", "time", "samples")} for row in rows]
    names = dict.fromkeys(["step", *(name for row in rows for name in row)])
    return {name: [_number(row.get(name)) for row in rows] for name in names}


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else math.nan
