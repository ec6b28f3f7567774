"""Makes the tables of a report: facts about each run, settings, checkpoints, scores, and outputs during training."""

import dataclasses
import datetime
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.config import AUTO_BATCH_BY, HParams
from t2t_lite.display import format_duration
from t2t_lite.evaluation.report import format_interval
from t2t_lite.evaluation.stored import Figure
from t2t_lite.metric import figure_label, is_of_outputs
from t2t_lite.registry import HPARAMS
from t2t_lite.report.charts import Chart, length_chart, shown
from t2t_lite.report.reading import Evaluation, Examples, Sample, StoredRun, text
from t2t_lite.runs.checkpoint_files import DATA

_MOST_FIGURES = 8  # maximum number of metrics in the table of checkpoints
_MOST_SENTENCES = 6  # maximum number of sample sentences per run
_MOST_ROWS = 14  # maximum number of outputs per sentence
_MOST_EVALUATIONS = 24  # maximum number of columns in a table of scores; the newest evaluations are kept
_RUNNING = "training.lock"


class CheckpointRow(NamedTuple):
    name: str
    megabytes: str
    figures: list[str]
    notes: list[str]  # notes such as "best by BLEU"


class CheckpointTable(NamedTuple):
    run: str
    titles: list[str]  # titles of the metrics
    rows: list[CheckpointRow]
    averages: list[str]  # sentences that say which checkpoints the averages contain
    best: str  # a sentence about the best checkpoint; "" if unknown


class HParamSet(NamedTuple):
    name: str
    values: Mapping[str, Any]
    parent: str  # the set that it derives from; "" if none
    of_parent: Mapping[str, Any]


class Cell(NamedTuple):
    value: str
    others: list[str]  # differing values in its set and the set's parent, such as "transformer_base: 512"


class Row(NamedTuple):
    name: str
    meaning: str
    cells: list[Cell]
    is_different: bool  # whether the runs, sets or parents differ


class ScoreRow(NamedTuple):
    """The scores of several evaluations by one metric."""

    label: str
    cells: list[tuple[str, str]]  # (score, interval) of each evaluation


class ScoreTable(NamedTuple):
    split: str  # the split, with the problem's name
    heads: list[list[str]]  # the header lines for each evaluation
    rows: list[ScoreRow]
    meanings: list[tuple[str, str]]  # (label, meaning and signature)
    left_out: int  # number of older evaluations
    chart: Chart | None
    by_length: list[tuple[str, list[str]]]  # (words, cells): the scores of lines in a range of lengths
    length_label: str


class SampleTable(NamedTuple):
    """The outputs for one line over the course of training."""

    source: str
    reference: str
    rows: list[tuple[str, str, bool]]  # (steps, output, whether it equals the reference)
    left_out: int


class ExampleGroup(NamedTuple):
    """The worst and best lines of the newest evaluation of a split."""

    run: str
    evaluation: Evaluation
    examples: Examples


def facts(runs: Sequence[StoredRun]) -> list[tuple[str, list[str]]]:
    """Returns rows of facts, (title, a cell for each run). Leaves out rows that are empty for all runs."""
    columns = list(map(_facts, runs))
    rows = [(title, [column[title] for column in columns]) for title in columns[0]]
    return [(title, cells) for title, cells in rows if any(cells)]


def _facts(run: StoredRun) -> dict[str, str]:
    start = run.starts[-1] if run.starts else {}
    recorded, plugins = text(run.about.get("hparams_set")), ", ".join(map(text, run.about.get("plugins", ())))
    # The time of the steps without evaluations: each report has the speed since the previous report.
    steps = pairwise([0, *(report["step"] for report in run.reports)])
    speeds = [report.get("steps_per_second", math.nan) for report in run.reports]
    seconds = sum((step - before) / speed for (before, step), speed in zip(steps, speeds) if speed > 0)
    return {
        "run directory": text(str(run.path.absolute())),
        "problem": run.problem + (f" (from plug-ins: {plugins})" if plugins else ""),
        "hparam set": recorded if not recorded or recorded in HPARAMS else f"{recorded} (not registered here)",
        "model": text(run.settings.get("model")),
        "parameters": (whole(run.starts[-1]["parameters"]) if run.starts else "") or "unknown",
        "state": _state(run),
        "steps": f"{run.last_step:,} of {whole(run.train_steps) or '?'}",
        "started": date(next(iter(run.starts or run.reports), {}).get("time", math.nan)),
        "last report": date(run.reports[-1].get("time", math.nan)) if run.reports else "",
        "time of the steps": format_duration(seconds) if 0 < seconds < 1e9 else "",
        "epochs": shown(run.reports[-1].get("epoch", math.nan)) if run.reports else "",
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


def _state(run: StoredRun) -> str:
    if run.train_steps <= run.last_step:
        return "complete"
    if (run.path / _RUNNING).exists():
        return "in training, or killed"
    return "unfinished, or stopped early" if run.last_step else "no steps done"


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
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError):  # the manifest's check is not complete
        return ""
    return f"{means[0]:.1f} and {means[1]:.1f} tokens in the inputs and targets of the training data" if means else ""


def _devices(start: dict[str, Any]) -> str:
    if not start:
        return ""
    names, replicas, workers = ", ".join(start["devices"]), start["replicas"], start["workers"]
    several = f" on {workers:.0f} machines" if workers > 1 else ""
    cores = f" ({text(start.get('cores'))} cores)" if names == "CPU" else ""
    return f"{replicas:.0f} x {names}{cores}{several}" if replicas > 1 or several else names + cores


def _versions(run: StoredRun, start: dict[str, Any]) -> str:
    names = {"t2t_lite": "t2t-lite", "tensorflow": "TensorFlow", "keras": "Keras", "python": "Python"}
    versions = [f"{title} {text(start[name])}" for name, title in names.items() if name in start]
    return ", ".join(versions) or (f"t2t-lite {text(run.about['version'])}" if "version" in run.about else "")


def hparam_set(run: StoredRun) -> HParamSet | None:
    """Returns a run's recorded hyperparameter set; None if it records none, or one that is not registered."""
    name = text(run.about.get("hparams_set"))
    if (values := _values(name)) is None:
        return None
    parent = HPARAMS.parent(name) or ""
    return HParamSet(name, values, parent, _values(parent) or {})


def settings_rows(runs: Sequence[StoredRun], sets: Sequence[HParamSet | None]) -> list[Row]:
    """Returns the settings of all runs in the order of `HParams`; [] if none can be read."""
    usual = dataclasses.asdict(HParams())
    names = dict.fromkeys([*usual, *(name for run in runs for name in run.settings)])
    rows = []
    for name in names if any(run.settings for run in runs) else ():
        values = [text(run.settings.get(name, usual.get(name, ""))) if run.settings else "" for run in runs]
        cells = [Cell(value, _others(name, value, chosen)) for value, chosen in zip(values, sets, strict=True)]
        differs = len(set(values)) > 1 or any(cell.others for cell in cells)
        rows.append(Row(text(name), HParams.option(name).help if name in usual else "", cells, differs))
    return rows


def _others(name: str, value: str, chosen: HParamSet | None) -> list[str]:
    other_values: list[str] = []
    if not chosen or not value:
        return other_values
    for origin, values in ((chosen.name, chosen.values), (chosen.parent, chosen.of_parent)):
        if name in values and text(values[name]) not in (value, AUTO_BATCH_BY):
            other_values.append(f"{origin}: {text(values[name])}")
    return other_values


def _values(name: str) -> dict[str, Any] | None:
    """Returns the settings in a set; None if the set is not registered or its code raises an error."""
    if name not in HPARAMS:
        return None
    try:
        return dataclasses.asdict(HPARAMS[name]())
    except Exception:  # plug-in code may raise anything
        return None


def checkpoint_table(run: StoredRun) -> CheckpointTable:
    measured = dict.fromkeys(name for step, _ in run.checkpoints for name in run.evaluations.get(step, ()))
    names = sorted(measured, key=lambda name: not is_of_outputs(name))[:_MOST_FIGURES]
    rows = []
    for step, path in run.checkpoints:
        figures = run.evaluations.get(step, {})
        cells = [score(figures.get(name, math.nan), is_of_outputs(name)) for name in names]
        rows.append(CheckpointRow(path.name, _megabytes(path), cells, _notes(run, step)))
    for average in run.averages:
        rows.append(CheckpointRow(average.path.name, _megabytes(average.path), [""] * len(names), ["average"]))
    averages = [
        f"{average.path.name} is the mean of {len(average.members)} checkpoints: steps "
        f"{', '.join(f'{step}' for step in average.members)}."
        if average.members
        else f"The checkpoints in {average.path.name} are unknown: it is a moving average of the weights, or was made "
        f"before version 0.10."
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
    value = score(run.evaluations.get(ranked[0], {}).get(figure, math.nan), is_of_outputs(figure))
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


def score_tables(runs: Sequence[StoredRun]) -> list[ScoreTable]:
    """Returns a table for each combination of problem, split and texts, within which scores are comparable."""
    by_text: dict[tuple[str, str, str], list[tuple[str, Evaluation]]] = {}
    for run in runs:
        for each in run.scores:
            by_text.setdefault((each.problem, each.split, each.texts), []).append((run.name, each))
    return [
        _score_table(place, f"{split} of {problem}", named, len(runs) > 1)
        for place, ((problem, split, _), named) in enumerate(by_text.items())
    ]


def _score_table(place: int, split: str, named: list[tuple[str, Evaluation]], names_runs: bool) -> ScoreTable:
    newest = sorted(named, key=lambda pair: pair[1].date)[-_MOST_EVALUATIONS:]
    shown_ones = [pair for pair in named if pair in newest]
    figures = {figure.name: figure for _, each in shown_ones for figure in each.figures}
    rows = []
    for name, figure in figures.items():
        row_figures = [{each.name: each for each in evaluation.figures}.get(name) for _, evaluation in shown_ones]
        rows.append(
            ScoreRow(
                figure.label,
                [(score(each.score, bool(each.metric)), _interval(each)) if each else ("", "") for each in row_figures],
            )
        )
    meanings = [
        (each.label, each.meaning + (f" Signature: {each.signature}" if each.signature else ""))
        for each in figures.values()
    ]
    heads = [_head(run, each, names_runs) for run, each in shown_ones]
    label = next((each.figures[0].label for _, each in shown_ones if each.by_length and each.figures), "score")
    curves = [(" ".join(head[:2]), each) for head, (_, each) in zip(heads, shown_ones)]
    chart = length_chart(str(place), split, label, curves)
    left_out = len(named) - len(shown_ones)
    return ScoreTable(split, heads, rows, meanings, left_out, chart, _by_length(shown_ones), label)


def _head(run: str, evaluation: Evaluation, names_run: bool) -> list[str]:
    chosen = f" ({evaluation.chosen})" if evaluation.chosen else ""
    lines = [*([run] if names_run else []), evaluation.checkpoint + chosen, evaluation.search]
    if not math.isnan(evaluation.lines):
        speed = evaluation.lines_per_second
        lines.append(
            f"{evaluation.lines:,.0f} lines" + ("" if math.isnan(speed) else f", {shown(speed, 3)} per second")
        )
    return [*lines, evaluation.date]


def _interval(figure: Figure) -> str:
    known = figure.interval and not any(map(math.isnan, figure.interval))
    return format_interval(figure.interval if known else None)


def _by_length(named: Sequence[tuple[str, Evaluation]]) -> list[tuple[str, list[str]]]:
    names = dict.fromkeys(bucket.words for _, each in named for bucket in each.by_length)
    rows = []
    for words in names:
        buckets = [next((row for row in each.by_length if row.words == words), None) for _, each in named]
        rows.append(
            (words, [f"{score(row.score, True)} ({shown(row.lines, 9)} lines)" if row else "" for row in buckets])
        )
    return sorted(rows, key=lambda row: int("".join(filter(str.isdigit, row[0].partition("-")[0])) or 0))


def sample_tables(run: StoredRun) -> list[SampleTable]:
    by_source: dict[str, list[Sample]] = {}
    for sample in run.samples:
        by_source.setdefault(sample.source, []).append(sample)
    tables = []
    for samples in list(by_source.values())[:_MOST_SENTENCES]:
        groups: list[list[Sample]] = []
        for sample in samples:  # consecutive equal outputs share a row
            if groups and groups[-1][0].output == sample.output:
                groups[-1].append(sample)
            else:
                groups.append([sample])
        last = len(groups) - 1
        kept = sorted({round(place * last / (_MOST_ROWS - 1)) for place in range(_MOST_ROWS)})
        rows = []
        for group in (groups[place] for place in kept):
            first, end = group[0].step, group[-1].step
            is_reference = bool(group[0].reference) and group[0].output == group[0].reference
            rows.append((str(first) if first == end else f"{first} to {end}", group[0].output, is_reference))
        tables.append(SampleTable(samples[-1].source, samples[-1].reference, rows, len(groups) - len(rows)))
    return tables


def example_groups(run: StoredRun) -> list[ExampleGroup]:
    """Returns the worst and best lines of each split's newest evaluation that has them."""
    newest = {each.split: each for each in sorted(run.scores, key=lambda each: each.date) if each.examples}
    return [ExampleGroup(run.name, each, each.examples) for each in newest.values() if each.examples]


def whole(value: float) -> str:
    """Formats a whole number with separators. Returns "" if it is not finite."""
    return f"{value:,.0f}" if math.isfinite(value) else ""


def score(value: float, of_outputs: bool) -> str:
    """Formats a score: two digits for percentages of outputs, four for metrics of tokens. Returns "" if it is NaN."""
    return "" if math.isnan(value) else f"{value:.2f}" if of_outputs and abs(value) < 1e6 else f"{value:.4g}"


def date(seconds: float) -> str:
    """Formats seconds since 1970 as a date and time. Returns "" if it is not a time."""
    try:
        return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""
