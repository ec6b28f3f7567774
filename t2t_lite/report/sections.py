"""Makes the sections of a report: scores, lines, curves, outputs during training, facts about each run, checkpoints."""

import contextlib
import dataclasses
import datetime
import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from t2t_lite.config import AUTO_BATCH_BY, HParams
from t2t_lite.display import format_duration
from t2t_lite.evaluation.stored import Figure, format_interval
from t2t_lite.metric import figure_label, is_of_outputs
from t2t_lite.registry import HPARAMS
from t2t_lite.report.charts import curve_charts, first_number, length_chart
from t2t_lite.report.reading import Evaluation, StoredRun, shown, text
from t2t_lite.runs.checkpoint_files import DATA

_MOST_FIGURES = 8  # maximum number of metrics in the table of checkpoints
_MOST_SENTENCES = 6  # maximum number of sample sentences per run
_MOST_ROWS = 14  # maximum number of outputs per sentence
_MOST_EVALUATIONS = 24  # maximum number of columns in a table of scores; the newest evaluations are kept
_MOST_UNFOLDED = 10  # maximum number of checkpoints in a table that is not folded at first
_RUNNING = "training.lock"
Lines: TypeAlias = Sequence[str]  # a cell: the first line is its value, the others are notes in small print


class Table(NamedTuple):
    """A table with a heading in each row and column."""

    caption: str  # what it shows
    style: str  # its CSS classes
    head: Sequence[Lines]  # the titles of all columns; () for none
    rows: Sequence[tuple[Lines, Sequence[Lines]]]  # the heading and the other cells of each row
    is_folded: bool | None = None  # whether it is folded at first; None: it cannot be folded


class Section(NamedTuple):
    """A section of a report.

    Its parts are (kind, content): "h3", "h4", "p" or "muted" with a text, "table" with a `Table`, "charts" with
    `Chart`s, "meanings" with (title, text) pairs, "lines" with (title, examples of `Evaluation`, "worst" or "best"), or
    "attention" with that of examples.
    """

    id: str
    title: str
    parts: list[tuple[str, Any]]


def make_sections(runs: Sequence[StoredRun]) -> list[Section]:
    """Returns the sections that are not empty."""
    charts = curve_charts(runs)
    facts = [("table", _facts(runs)), *(("table", table) for table in _settings(runs))]
    sections = [
        Section("scores", "Scores", _scores(runs)),
        Section("examples", "Worst and best lines", _examples(runs)),
        Section("curves", "Curves", [("charts", charts)] if charts else []),
        Section("samples", "Outputs during training", _samples(runs)),
        Section("attention", "Attention", _attention(runs)),
        Section("trained", "What was trained", facts),
        Section("checkpoints", "Checkpoints", [part for run in runs for part in _checkpoints(run)]),
    ]
    return [section for section in sections if section.parts]


def _scores(runs: Sequence[StoredRun]) -> list[tuple[str, Any]]:
    """Returns the scores for each combination of problem, split and texts, within which they are comparable."""
    by_text: dict[tuple[str, str, str], list[tuple[str, Evaluation]]] = {}
    for run in runs:
        for each in run.scores:
            by_text.setdefault((each.problem, each.split, each.texts), []).append((run.name, each))
    parts: list[tuple[str, Any]] = []
    for place, ((problem, split, _), named) in enumerate(by_text.items()):
        newest = sorted(named, key=lambda pair: pair[1].date)[-_MOST_EVALUATIONS:]
        kept = [pair for pair in named if pair in newest]
        evaluations, of = [each for _, each in kept], f"{split} of {problem}"
        heads = [[*([run] if len(runs) > 1 else []), *each.about] for run, each in kept]
        figures = {figure.name: figure for each in evaluations for figure in each.figures}
        columns = [{figure.name: figure for figure in each.figures} for each in evaluations]
        rows = [([figure.label], [_score_cell(each.get(name)) for each in columns]) for name, figure in figures.items()]
        note = "Below each score: its 95% interval, by bootstrap resampling of the lines."
        if left_out := len(named) - len(kept):
            note += f" {left_out} older evaluations are left out."
        meanings = [
            (each.label, each.meaning + (f" Signature: {each.signature}" if each.signature else ""))
            for each in figures.values()
        ]
        parts += [("h3", of), ("table", Table(f"Scores, {of}", "scores", [(), *heads], rows))]
        parts += [("muted", note), ("meanings", meanings)]
        label = next((each.figures[0].label for each in evaluations if each.by_length and each.figures), "score")
        titled = [(" ".join(head[:2]), each) for head, each in zip(heads, evaluations)]
        if chart := length_chart(str(place), of, label, titled):
            parts.append(("charts", [chart]))
        lengths = {words: None for each in evaluations for words, *_ in each.by_length}
        by_length = []
        for words in sorted(lengths, key=first_number):
            buckets = [{name: values for name, *values in each.by_length}.get(words) for each in evaluations]
            cells = [[f"{score(row[1], True)} ({shown(row[0], 9)} lines)" if row else ""] for row in buckets]
            by_length.append(([words], cells))
        if by_length:
            caption = f"{label} by the number of source words, {of}"
            parts += [("table", Table(caption, "scores", [["words"], *(head[:3] for head in heads)], by_length, True))]
    return parts


def _score_cell(figure: Figure | None) -> Lines:
    if figure is None:
        return [""]
    is_known = figure.interval and not any(map(math.isnan, figure.interval))
    return [score(figure.score, bool(figure.metric)), *([format_interval(figure.interval)] if is_known else [])]


def _newest(runs: Sequence[StoredRun]) -> list[tuple[str, dict[str, Any]]]:
    """Returns a title and the examples of each split's newest evaluation that has them, for each run."""
    found = []
    for run in runs:
        newest = {each.split: each for each in sorted(run.scores, key=lambda each: each.date) if each.examples}
        found += [
            (f"{run.name}, {each.about[0].partition(' (')[0]} on {each.split}", each.examples)
            for each in newest.values()
        ]
    return found


def _examples(runs: Sequence[StoredRun]) -> list[tuple[str, Any]]:
    parts: list[tuple[str, Any]] = []
    for title, examples in _newest(runs):
        parts.append(("h3", title))
        parts += [
            ("lines", (f"{name.title()} lines by {examples['label']}", examples[name]))
            for name in ("worst", "best")
            if examples[name]
        ]
    note = "Below each output word in an alignment: the source word that it attends to most."
    return [("muted", note), *parts] if parts else []


def _attention(runs: Sequence[StoredRun]) -> list[tuple[str, Any]]:
    having = [(title, examples["attention"]) for title, examples in _newest(runs) if examples["attention"] is not None]
    return [part for title, attention in having for part in (("h3", title), ("attention", attention))]


def _samples(runs: Sequence[StoredRun]) -> list[tuple[str, Any]]:
    """Returns a table for each line whose outputs were logged; consecutive equal outputs share a row."""
    parts: list[tuple[str, Any]] = []
    for run in runs:
        sources = list(dict.fromkeys(sample.source for sample in run.samples))[:_MOST_SENTENCES]
        parts += [("h3", run.name)] if sources else []
        for source in sources:
            of_source = [sample for sample in run.samples if sample.source == source]
            groups = [list(group) for _, group in groupby(of_source, key=lambda sample: sample.output)]
            last, rows = len(groups) - 1, []
            for place in sorted({round(place * last / (_MOST_ROWS - 1)) for place in range(_MOST_ROWS)}):
                first, end = groups[place][0], groups[place][-1].step
                steps = str(first.step) if first.step == end else f"{first.step} to {end}"
                is_reference = bool(first.reference) and first.output == first.reference
                rows.append(([steps], [[first.output, *(["(the reference)"] if is_reference else [])]]))
            reference = of_source[-1].reference
            style = "samples tree" if reference.startswith("(") else "samples"
            table = Table(
                f"Outputs for {source}", style, [["step"], ["output"]], [*rows, (["reference"], [[reference]])]
            )
            parts += [("h4", source), ("table", table)]
            if left_out := len(groups) - len(rows):
                parts.append(("muted", f"{left_out} other outputs are left out."))
    note = "The same lines of the dev split at each evaluation. An output that equals the reference is marked."
    return [("muted", note), *parts] if parts else []


def _facts(runs: Sequence[StoredRun]) -> Table:
    """Returns a table of facts. Leaves out rows that are empty for all runs."""
    columns = list(map(_facts_of, runs))
    rows = [([title], [[text(column[title])] for column in columns]) for title in columns[0]]
    rows = [(title, cells) for title, cells in rows if any(value for (value,) in cells)]
    return Table("What was trained", "facts", [(), *([run.name] for run in runs)], rows)


def _facts_of(run: StoredRun) -> dict[str, object]:
    start = run.starts[-1] if run.starts else {}
    recorded, plugins = text(run.about.get("hparams_set")), ", ".join(map(text, run.about.get("plugins", ())))
    # The time of the steps without evaluations: each report has the speed since the previous report.
    steps = pairwise([0, *(report["step"] for report in run.reports)])
    speeds = [report.get("steps_per_second", math.nan) for report in run.reports]
    seconds = sum((step - before) / speed for (before, step), speed in zip(steps, speeds) if speed > 0)
    state = "unfinished, or stopped early" if run.last_step else "no steps done"
    if run.train_steps <= run.last_step:
        state = "complete"
    elif (run.path / _RUNNING).exists():
        state = "in training, or killed"
    devices, several = ", ".join(start.get("devices", ())), ""
    if start:
        devices += f" ({text(start.get('cores'))} cores)" if devices == "CPU" else ""
        several = f" on {start['workers']:.0f} machines" if start["workers"] > 1 else ""
        devices = f"{start['replicas']:.0f} x {devices}{several}" if start["replicas"] > 1 or several else devices
    names = {"t2t_lite": "t2t-lite", "tensorflow": "TensorFlow", "keras": "Keras", "python": "Python"}
    versions = ", ".join(f"{title} {text(start[name])}" for name, title in names.items() if name in start)
    if not versions and "version" in run.about:
        versions = f"t2t-lite {text(run.about['version'])}"
    of_data: dict[str, str] = {}
    for split in ("train", "dev", "test"):
        if entry := run.manifest.splits.get(split) if run.manifest else None:
            dropped = sum(entry.get("dropped", {}).values())
            title = "training pairs" if split == "train" else f"{split} pairs"
            of_data[title] = f"{entry['examples']:,}" + (f" ({dropped:,} dropped)" if dropped else "")
    if run.manifest:
        sizes = dict.fromkeys((entry["file"], entry["size"]) for entry in run.manifest.vocabularies)
        of_data["vocabulary"] = ", ".join(f"{size:,} tokens ({text(file)})" for file, size in sizes)
        # The manifest's check is not complete.
        with contextlib.suppress(KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError):
            means = [run.manifest.mean_length("train", side) for side in ("inputs", "targets")]
            lengths = f"{means[0]:.1f} and {means[1]:.1f} tokens in the inputs and targets of the training data"
            of_data["mean length"] = lengths
    last = run.reports[-1] if run.reports else {}
    return {
        "run directory": str(run.path.absolute()),
        "problem": run.problem + (f" (from plug-ins: {plugins})" if plugins else ""),
        "hparam set": recorded if not recorded or recorded in HPARAMS else f"{recorded} (not registered here)",
        "model": run.settings.get("model"),
        "parameters": whole(start.get("parameters", math.nan)) or "unknown",
        "state": state,
        "steps": f"{run.last_step:,} of {whole(run.train_steps) or '?'}",
        "started": date(next(iter(run.starts or run.reports), {}).get("time", math.nan)),
        "last report": date(last.get("time", math.nan)),
        "time of the steps": format_duration(seconds) if 0 < seconds < 1e9 else "",
        "epochs": shown(last.get("epoch", math.nan)),
        "random seed": run.about.get("random_seed"),
        **dict.fromkeys(("training pairs", "dev pairs", "test pairs", "vocabulary", "mean length"), ""),
        **of_data,
        "devices": devices,
        "versions": versions,
        "starts": str(len(run.starts)) if len(run.starts) > 1 else "",
    }


def _settings(runs: Sequence[StoredRun]) -> list[Table]:
    """Returns the settings that differ between runs, their sets and the sets' parents, and all settings."""
    if not any(run.settings for run in runs):
        return []
    usual, sets = dataclasses.asdict(HParams()), [_sets(text(run.about.get("hparams_set"))) for run in runs]
    rows, different = [], []
    for name in dict.fromkeys([*usual, *(name for run in runs for name in run.settings)]):
        values = [text(run.settings.get(name, usual.get(name, ""))) if run.settings else "" for run in runs]
        cells = []
        for value, known in zip(values, sets):
            others = {origin: text(of_set[name]) for origin, of_set in known.items() if value and name in of_set}
            differ = [f"{origin}: {other}" for origin, other in others.items() if other not in (value, AUTO_BATCH_BY)]
            cells.append([value, *differ])
        meaning = HParams.option(name).help if name in usual else ""
        row = ([text(name), *([meaning] if meaning else [])], cells)
        rows.append(row)
        different += [row] if len(set(values)) > 1 or any(len(cell) > 1 for cell in cells) else []
    head = [["setting"], *([run.name] for run in runs)]
    title = "Settings that differ between the runs, from the hparam set or from the set's parent"
    tables = [Table(title, "settings", head, different, False)] if different else []
    return [*tables, Table("All settings", "settings", head, rows, True)]


def _sets(name: str) -> dict[str, Mapping[str, Any]]:
    """Returns the settings of a set and of its parent by name. A set that is not registered, or fails, has none."""
    values = {}
    names = (name, HPARAMS.parent(name) or "") if name in HPARAMS else ()
    with contextlib.suppress(Exception):  # plug-in code may raise anything
        for each in filter(None, names):
            values[each] = dataclasses.asdict(HPARAMS[each]())
    return values


def _checkpoints(run: StoredRun) -> list[tuple[str, Any]]:
    measured = dict.fromkeys(name for step, _ in run.checkpoints for name in run.evaluations.get(step, ()))
    names = sorted(measured, key=lambda name: not is_of_outputs(name))[:_MOST_FIGURES]
    existing = {step for step, _ in run.checkpoints}
    best = next((step for step in run.best[1] if step in existing), None) if run.best else None
    rows = []
    for step, path in run.checkpoints:
        figures = run.evaluations.get(step, {})
        notes = [f"best by {figure_label(run.best[0])}"] if run.best and step == best else []
        notes += ["last"] if step == run.checkpoints[-1][0] else []
        notes += [f"in {average.name}" for average, members in run.averages.items() if step in members]
        cells = [score(figures.get(name, math.nan), is_of_outputs(name)) for name in names]
        rows.append(([path.name], [[cell] for cell in (_megabytes(path), *cells, ", ".join(notes))]))
    parts: list[tuple[str, Any]] = [("h3", run.name)]
    if run.best:
        figure, ranked = run.best
        value = score(run.evaluations.get(ranked[0], {}).get(figure, math.nan), is_of_outputs(figure))
        line = f"The best step by {figure_label(figure)} is {ranked[0]}" + (f" ({value})." if value else ".")
        if best is None:
            line += " Its checkpoint and those of all evaluated steps were removed."
        elif best != ranked[0]:
            line += f" Its checkpoint was removed; the best that exists is {best}."
        parts.append(("p", line))
    for path, members in run.averages.items():
        line = f"{path.name} is the mean of {len(members)} checkpoints: steps {', '.join(map(str, members))}."
        if not members:
            line = (
                f"The checkpoints in {path.name} are unknown: it is a moving average of the weights, or was made "
                f"before version 0.10."
            )
        parts.append(("p", line))
        rows.append(([path.name], [[cell] for cell in (_megabytes(path), *([""] * len(names)), "average")]))
    if not rows:
        return [*parts, ("p", "There are no checkpoints.")]
    head = [["checkpoint"], ["MB"], *([f"dev {figure_label(name)}"] for name in names), ["remarks"]]
    caption = f"{len(rows)} checkpoint{'' if len(rows) == 1 else 's'} of {run.name}"
    return [*parts, ("table", Table(caption, "checkpoints", head, rows, len(rows) > _MOST_UNFOLDED))]


def _megabytes(path: Path) -> str:
    try:
        return f"{Path(f'{path}{DATA}').stat().st_size / 1e6:,.1f}"
    except OSError:
        return ""


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
