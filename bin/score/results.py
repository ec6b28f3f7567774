"""Computes the results of t2t-lite-score, and prints them as text or JSON."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.bin import cli
from t2t_lite.errors import UserError
from t2t_lite.files import as_json
from t2t_lite.metric import (
    TREES,
    check_lines,
    compute_score,
    figure_label,
    figure_name,
    make_metric,
    metric_needs,
    options_taken,
    references_taken,
    report,
)
from t2t_lite.registry import METRICS
from t2t_lite.scoring.changes import Change, most_changed
from t2t_lite.scoring.parseval import check_one_line_per_tree
from t2t_lite.scoring.significance import BOOTSTRAP, EXPLANATIONS, TESTS, Comparison, compare, interval

Texts = Mapping[str, Sequence[str]]
_INTERVALS = f"bootstrap, {TESTS[BOOTSTRAP]:,} samples"
_NOT_RESAMPLED = "no interval or p-value, because the metric cannot be resampled by lines (Metric.resampled)"


@dataclasses.dataclass(frozen=True)
class Files:
    # hypotheses, references: one or several files.
    hypotheses: Texts
    references: Texts
    source: Texts  # one file or none

    def check(self) -> None:
        """Raises UserError if the files have different numbers of lines or are empty."""
        (name, lines), *others = ({**self.hypotheses, **self.source, **self.references}).items()
        for other, its_lines in others:
            if len(its_lines) != len(lines):
                raise UserError(
                    f"{name} has {len(lines)} lines but {other} has {len(its_lines)}: "
                    f"line n of one must correspond to line n of the other"
                )
        check_lines(lines, *self.references.values())

    @property
    def sources(self) -> Sequence[str] | None:
        return next(iter(self.source.values()), None)


@dataclasses.dataclass(frozen=True)
class Scored:
    metric: str  # the name of the metric
    signature: str  # see `Metric.signature`
    # The comparison of each file with the first. Intervals that are not requested or not known are NaN.
    systems: Sequence[Comparison]

    @property
    def has_intervals(self) -> bool:
        return not math.isnan(self.systems[0].low)

    @property
    def label(self) -> str:
        return figure_label(figure_name(self.metric))


def check_trees(files: Files, metrics: Sequence[str]) -> None:
    """Raises UserError if a metric scores trees, and trees take several lines."""
    if TREES in map(metric_needs, metrics):
        for name, lines in {**files.hypotheses, **files.references}.items():
            check_one_line_per_tree(lines, name)


def remarks(files: Files, metrics: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """Returns the metrics' remarks about the files, see `Metric.remarks`; each names a metric and a file."""
    references = files.references.values()
    found = []
    for metric in metrics:
        scorer = make_metric(metric, **options_taken(metric, options))
        for name, lines in files.hypotheses.items():
            about = f"{figure_label(figure_name(metric))} of {name}"
            taken = references_taken(metric, list(references))
            found += [f"{about}: {line}" for line in scorer.remarks(lines, *taken)]
    return found


def print_reports(files: Files, metrics: Sequence[str], options: Mapping[str, Any], intervals: bool) -> None:
    ((name, hypotheses),) = files.hypotheses.items()
    references, printed = list(files.references.values()), []
    for metric in metrics:
        taken = options_taken(metric, options)
        printed += report(metric, hypotheses, *references, names=(name, ",".join(files.references)), **taken)
        if intervals:
            known = interval(metric, hypotheses, *references, **taken)
            shown = f"95% interval {known.low:.2f} to {known.high:.2f} ({_INTERVALS})" if known else _NOT_RESAMPLED
            printed.append(f"{figure_label(figure_name(metric))}: {shown}")
    print("\n".join(printed))  # print all reports at the end, when nothing can fail any more


def score_files(
    files: Files, metrics: Sequence[str], options: Mapping[str, Any], intervals: bool, test: str
) -> list[Scored]:
    references, scored = list(files.references.values()), []
    for metric in metrics:
        taken = options_taken(metric, options)
        scorer = make_metric(metric, **taken)
        if (intervals or len(files.hypotheses) > 1) and scorer.resampled() is not None:
            systems = compare(metric, files.hypotheses, *references, test=test, **taken)
        else:
            systems = [
                Comparison(name, compute_score(metric, scorer, lines, *references), math.nan, math.nan, None)
                for name, lines in files.hypotheses.items()
            ]
        scored.append(Scored(metric, scorer.signature(len(references)), systems))
    return scored


def largest_changes(files: Files, metric: str, options: Mapping[str, Any], count: int) -> dict[str, list[Change]]:
    """Returns the lines that changed most from the first file to each other file; {} if `count` is 0."""
    (_, first), *others = files.hypotheses.items()
    references = files.references.values()
    return {
        name: most_changed(metric, first, lines, *references, count=count, **options)
        for name, lines in (others if count else ())
    }


def print_comparison(files: Files, metrics: Sequence[Scored], test: str, changes: Mapping[str, list[Change]]) -> None:
    from rich.text import Text

    for scored in metrics:
        print(f"{scored.label}|{scored.signature}" if scored.signature else scored.label)
        table = cli.table("", "score", "95% interval", "p-value", pad_edge=True)
        for system in scored.systems:
            low_to_high = "-" if math.isnan(system.low) else f"{system.low:.2f} to {system.high:.2f}"
            p_value = "-" if system.p_value is None else f"{system.p_value:.4f}"
            table.add_row(Text(system.name), f"{system.score:.2f}", low_to_high, p_value)
        cli.print_table(table)
        if not scored.has_intervals:
            print(_NOT_RESAMPLED)
        print()
    first = next(iter(files.hypotheses))
    print(f"p-value: for the difference from {first}, by {EXPLANATIONS[test]}")
    print(f"intervals: {_INTERVALS}")
    for other, file_changes in changes.items():
        print()
        if not file_changes:
            print(f"no line differs between {first} and {other}")
            continue
        print(f"lines that changed most from {first} to {other}:")
        for change in file_changes:
            scores, *texts = change.shown(first, other, files.sources)
            print("\n  ".join([f"\n{scores}", *texts]))


def print_json(files: Files, metrics: Sequence[Scored], test: str, changes: Mapping[str, list[Change]]) -> None:
    several = len(files.hypotheses) > 1
    content = {
        "hypotheses": list(files.hypotheses),
        "references": list(files.references),
        "lines": len(next(iter(files.hypotheses.values()))),
        "metrics": [
            {
                "name": scored.metric,
                "label": scored.label,
                "meaning": METRICS.summary(scored.metric),
                "signature": scored.signature,
                "score": scored.systems[0].score,
                "interval": {"low": scored.systems[0].low, "high": scored.systems[0].high}
                if scored.has_intervals
                else None,
                "comparisons": [
                    dict(zip(("hypothesis", "score", "low", "high", "p_value"), system)) for system in scored.systems
                ]
                if several
                else [],
            }
            for scored in metrics
        ],
        "test": {"name": test, "num_samples": TESTS[test]} if several else None,
        "changes": {
            other: [change.to_json(files.sources) for change in file_changes] for other, file_changes in changes.items()
        },
    }
    print(as_json(content))
