"""Makes the tables of a report about runs: facts about each run, and its checkpoints."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.checkpoints.index_file import num_parameters
from t2t_lite.checkpoints.versions import DATA
from t2t_lite.display import format_duration
from t2t_lite.errors import UserError
from t2t_lite.report.reading import StoredRun
from t2t_lite.report.settings_table import HParamSet
from t2t_lite.report.values import date, number, score, shown, text, whole
from t2t_lite.scoring.metric import figure_label, is_of_outputs

_MOST_FIGURES = 8  # maximum number of metrics in the table of checkpoints
_RUNNING = "training.lock"


class CheckpointRow(NamedTuple):
    """A checkpoint."""

    name: str
    megabytes: str
    figures: list[str]
    notes: list[str]  # notes such as "best by BLEU"


class CheckpointTable(NamedTuple):
    """The checkpoints of a run."""

    run: str
    titles: list[str]  # titles of the metrics
    rows: list[CheckpointRow]
    averages: list[str]  # sentences that say which checkpoints the averages contain
    best: str  # a sentence about the best checkpoint; "" if unknown


def facts(runs: Sequence[StoredRun], sets: Sequence[HParamSet | None]) -> list[tuple[str, list[str]]]:
    """Returns rows of facts, (title, a cell for each run). Leaves out rows that are empty for all runs."""
    columns = [_facts(run, chosen) for run, chosen in zip(runs, sets, strict=True)]
    rows = [(title, [column[title] for column in columns]) for title in columns[0]]
    return [(title, cells) for title, cells in rows if any(cells)]


def _facts(run: StoredRun, chosen: HParamSet | None) -> dict[str, str]:
    start = run.starts[-1] if run.starts else {}
    seconds = _training_seconds(run)
    return {
        "run directory": text(str(run.path.absolute())),
        "problem": run.problem + _plugins(run),
        "hparam set": _set_name(run, chosen),
        "model": text(run.settings.get("model")),
        "parameters": whole(_parameters(run)),
        "state": _state(run),
        "steps": f"{run.last_step:,} of {whole(run.settings.get('train_steps')) or '?'}",
        "started": date(next(iter(run.starts or run.reports), {}).get("time")),
        "last report": date(run.reports[-1].get("time")) if run.reports else "",
        "time of the steps": format_duration(seconds) if 0 < seconds < 1e9 else "",
        "epochs": shown(number(run.reports[-1].get("epoch"))) if run.reports else "",
        "random seed": text(run.about.get("random_seed")),
        "training pairs": _pairs(run, "train"),
        "dev pairs": _pairs(run, "dev"),
        "test pairs": _pairs(run, "test"),
        "vocabulary": _vocabulary(run),
        "mean length": _lengths(run),
        "devices": _devices(start),
        "versions": _versions(run, start),
        "starts": str(len(run.starts)) if len(run.starts) > 1 else "",
    }


def _plugins(run: StoredRun) -> str:
    plugins = run.about.get("plugins")
    names = ", ".join(map(text, plugins)) if isinstance(plugins, dict) else ""
    return f" (from plug-ins: {names})" if names else ""


def _set_name(run: StoredRun, chosen: HParamSet | None) -> str:
    if recorded := text(run.about.get("hparams_set")):
        return recorded if chosen else f"{recorded} (not registered here)"
    return f"not recorded; the nearest is {chosen.name}" if chosen else ""


def _parameters(run: StoredRun) -> float:
    """Returns the recorded number of parameters, else the number in the last checkpoint; NaN if unknown."""
    recorded = number(run.starts[-1].get("parameters")) if run.starts else math.nan
    for _, path in run.checkpoints[-1:] if math.isnan(recorded) else ():
        try:
            return float(num_parameters(path))
        except UserError:
            break
    return recorded


def _state(run: StoredRun) -> str:
    last = number(run.settings.get("train_steps"))
    if last <= run.last_step:
        return "complete"
    if (run.path / _RUNNING).exists():
        return "in training, or killed"
    return "unfinished, or stopped early" if run.last_step else "no steps done"


def _training_seconds(run: StoredRun) -> float:
    """Returns the time of the steps without evaluations. Each report has the speed since the previous report."""
    steps = [0, *(report["step"] for report in run.reports)]
    speeds = [number(report.get("steps_per_second")) for report in run.reports]
    return sum((step - before) / speed for (before, step), speed in zip(pairwise(steps), speeds) if speed > 0)


def _pairs(run: StoredRun, split: str) -> str:
    entry = run.manifest.splits.get(split) if run.manifest else None
    if not entry:
        return ""
    dropped = sum(entry.get("dropped", {}).values())
    return f"{entry['examples']:,}" + (f" ({dropped:,} dropped)" if dropped else "")


def _vocabulary(run: StoredRun) -> str:
    if not run.manifest:
        return ""
    sizes = dict.fromkeys((entry["file"], entry["size"]) for entry in run.manifest.vocabularies)
    return ", ".join(f"{size:,} tokens ({text(file)})" for file, size in sizes)


def _lengths(run: StoredRun) -> str:
    try:
        means = [run.manifest.mean_length("train", side) for side in ("inputs", "targets")] if run.manifest else []
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError):
        return ""
    return f"{means[0]:.1f} and {means[1]:.1f} tokens in the inputs and targets of the training data" if means else ""


def _devices(start: dict[str, Any]) -> str:
    devices = start.get("devices")
    if not isinstance(devices, list):
        return ""
    names, replicas = ", ".join(map(text, devices)), number(start.get("replicas"))
    workers = number(start.get("workers"))
    several = f" on {workers:.0f} machines" if workers > 1 else ""
    cores = f" ({text(start.get('cores'))} cores)" if names == "CPU" else ""
    return f"{replicas:.0f} x {names}{cores}{several}" if replicas > 1 or several else names + cores


def _versions(run: StoredRun, start: dict[str, Any]) -> str:
    names = {"t2t_lite": "t2t-lite", "tensorflow": "TensorFlow", "keras": "Keras", "python": "Python"}
    versions = [f"{title} {text(start[name])}" for name, title in names.items() if name in start]
    return ", ".join(versions) or (f"t2t-lite {text(run.about['version'])}" if "version" in run.about else "")


def checkpoint_table(run: StoredRun) -> CheckpointTable:
    """Returns the checkpoints of a run with their scores, and the members of its averages."""
    measured = dict.fromkeys(name for step, _ in run.checkpoints for name in run.evaluations.get(step, ()))
    names = sorted(measured, key=lambda name: not is_of_outputs(name))[:_MOST_FIGURES]
    rows = []
    for step, path in run.checkpoints:
        figures = run.evaluations.get(step, {})
        cells = [score(number(figures.get(name)), is_of_outputs(name)) for name in names]
        rows.append(CheckpointRow(path.name, _megabytes(path), cells, _notes(run, step)))
    for average in run.averages:
        rows.append(CheckpointRow(average.path.name, _megabytes(average.path), [""] * len(names), ["average"]))
    averages = [
        f"{average.path.name} is the mean of {len(average.members)} checkpoints: steps "
        f"{', '.join(f'{step}' for step in average.members)}."
        if average.members
        else f"{average.path.name} does not record its checkpoints; it is a moving average of the weights, or was "
        f"made by version 0.4."
        for average in run.averages
    ]
    titles = [figure_label(name) for name in names]
    return CheckpointTable(run.name, titles, rows, averages, _best(run))


def _notes(run: StoredRun, step: int) -> list[str]:
    notes = [f"in {average.path.name}" for average in run.averages if step in average.members]
    if step == run.checkpoints[-1][0]:
        notes.insert(0, "last")
    if run.best and step == _best_existing(run):
        notes.insert(0, f"best by {figure_label(run.best[0])}")
    return notes


def _best_existing(run: StoredRun) -> int | None:
    steps = {step for step, _ in run.checkpoints}
    return next((step for step in run.best[1] if step in steps), None) if run.best else None


def _best(run: StoredRun) -> str:
    if not run.best:
        return ""
    figure, ranked = run.best
    value = score(number(run.evaluations.get(ranked[0], {}).get(figure)), is_of_outputs(figure))
    line = f"The best step by {figure_label(figure)} is {ranked[0]}" + (f" ({value})." if value else ".")
    existing = _best_existing(run)
    if existing is None:
        return f"{line} Its checkpoint and those of all evaluated steps were removed."
    return line if existing == ranked[0] else f"{line} Its checkpoint was removed; the best that exists is {existing}."


def _megabytes(path: Path) -> str:
    try:
        return f"{Path(f'{path}{DATA}').stat().st_size / 1e6:,.1f}"
    except OSError:
        return ""
