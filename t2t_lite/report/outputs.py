"""Makes the tables of a report about outputs: stored scores, and outputs during training."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from t2t_lite.evaluation.figures import Figure
from t2t_lite.evaluation.report import format_interval
from t2t_lite.report.charts import Chart, length_chart
from t2t_lite.report.reading import Sample, StoredRun
from t2t_lite.report.stored_scores import Evaluation, Examples
from t2t_lite.report.values import score, shown

_MOST_SENTENCES = 6  # maximum number of sample sentences per run
_MOST_ROWS = 14  # maximum number of outputs per sentence
_MOST_EVALUATIONS = 24  # maximum number of columns in a table of scores; the newest evaluations are kept


class ScoreRow(NamedTuple):
    """The scores of several evaluations by one metric."""

    label: str
    cells: list[tuple[str, str]]  # (score, interval) of each evaluation


class ScoreTable(NamedTuple):
    """The scores for one evaluated text."""

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
    """Returns a table of outputs for each line that the evaluations of a run decoded as a sample."""
    by_source: dict[str, list[Sample]] = {}
    for sample in run.samples:
        by_source.setdefault(sample.source, []).append(sample)
    return [_sample_table(samples) for samples in list(by_source.values())[:_MOST_SENTENCES]]


def _sample_table(samples: Sequence[Sample]) -> SampleTable:
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
    return SampleTable(samples[-1].source, samples[-1].reference, rows, len(groups) - len(rows))


def example_groups(run: StoredRun) -> list[ExampleGroup]:
    """Returns the worst and best lines of each split's newest evaluation that has them."""
    newest = {each.split: each for each in sorted(run.scores, key=lambda each: each.date) if each.examples}
    return [ExampleGroup(run.name, each, each.examples) for each in newest.values() if each.examples]
