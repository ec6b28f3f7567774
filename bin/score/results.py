"""What t2t-lite-score computes, before it is printed."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from t2t_lite.errors import UserError
from t2t_lite.scoring.changes import Change, most_changed
from t2t_lite.scoring.metric import check_lines, figure_of, label_of, make_metric, options_taken, report, score_of
from t2t_lite.scoring.significance import Comparison, Interval, compare, interval

Texts = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Files:
    """The lines of the files, by their names.

    Args:
      hypotheses, references: one or several files.
      source: one file or none.
    """

    hypotheses: Texts
    references: Texts
    source: Texts

    def check(self) -> None:
        """Raises UserError if the files differ in their numbers of lines, or are empty."""
        (name, lines), *others = ({**self.hypotheses, **self.source, **self.references}).items()
        for other, its_lines in others:
            if len(its_lines) != len(lines):
                raise UserError(
                    f"{name} has {len(lines)} lines but {other} has {len(its_lines)}: "
                    f"line n of one must correspond to line n of the other"
                )
        check_lines(lines, *self.references.values())


@dataclasses.dataclass(frozen=True)
class Scored:
    """What a metric says of the first file, and of the others.

    Args:
      metric: its name.
      signature: see `Metric.signature`.
      score: of the first file.
      interval: the confidence interval; None: not asked for, or not known.
      comparisons: of each file with the first. A score without resampling has no interval, which is then NaN.
    """

    metric: str
    signature: str
    score: float
    interval: Interval | None = None
    comparisons: Sequence[Comparison] = ()

    @property
    def label(self) -> str:
        """What reports call it."""
        return label_of(figure_of(self.metric))


@dataclasses.dataclass(frozen=True)
class Results:
    """All that is printed.

    Args:
      metrics: what each metric says.
      test: the paired test; "" if there is nothing to compare.
      changes: the lines that changed most between the first file and each other, by its name.
    """

    metrics: Sequence[Scored]
    test: str = ""
    changes: Mapping[str, Sequence[Change]] = dataclasses.field(default_factory=dict)


def reports_of(
    files: Files, metrics: Sequence[str], options: Mapping[str, Any], intervals: bool
) -> Iterator[tuple[str, list[str], Interval | None]]:
    """Yields (metric, its lines of t2t-lite-score for one file, its confidence interval or None).

    Args:
      files: the texts.
      metrics: names of metrics.
      options: of the metrics; each gets those that it takes.
      intervals: whether to compute confidence intervals.
    """
    ((name, hypotheses),) = files.hypotheses.items()
    references = list(files.references.values())
    for metric in metrics:
        taken = options_taken(metric, options)
        lines = report(metric, hypotheses, *references, names=(name, ",".join(files.references)), **taken)
        yield metric, lines, interval(metric, hypotheses, *references, **taken) if intervals else None


def score_file(files: Files, metrics: Sequence[str], options: Mapping[str, Any], intervals: bool) -> Results:
    """Scores one file. Arguments: see `reports_of`."""
    ((_, hypotheses),) = files.hypotheses.items()
    references = list(files.references.values())
    scored = []
    for metric in metrics:
        taken = options_taken(metric, options)
        scorer = make_metric(metric, **taken)
        known = interval(metric, hypotheses, *references, **taken) if intervals else None
        score = known.score if known else score_of(metric, scorer, hypotheses, *references)
        scored.append(Scored(metric, scorer.signature(len(references)), score, known))
    return Results(scored)


def score_files(
    files: Files, metrics: Sequence[str], options: Mapping[str, Any], test: str, num_changes: int
) -> Results:
    """Scores several files, and compares them with the first of them.

    Args:
      files, metrics, options: see `reports_of`.
      test: the paired test.
      num_changes: number of lines in `Results.changes`.
    """
    references = list(files.references.values())
    scored = []
    for metric in metrics:
        taken = options_taken(metric, options)
        scorer = make_metric(metric, **taken)
        if scorer.resampled():
            comparisons = compare(metric, files.hypotheses, *references, test=test, **taken)
        else:
            comparisons = [
                Comparison(name, score_of(metric, scorer, lines, *references), float("nan"), float("nan"), None)
                for name, lines in files.hypotheses.items()
            ]
        first, *_ = comparisons
        known = Interval(first.score, first.low, first.high) if scorer.resampled() else None
        signature = scorer.signature(len(references))
        scored.append(Scored(metric, signature, first.score, interval=known, comparisons=comparisons))
    (_, first_lines), *others = files.hypotheses.items()
    changes = {
        name: most_changed(metrics[0], first_lines, lines, *references, count=num_changes, **options)
        for name, lines in others
    }
    return Results(scored, test, changes if num_changes else {})
