"""The lines that changed most between two systems."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from t2t_lite.scoring.metric import check_lines, check_references, make_metric, options_taken

# Scores the lines of metrics that cannot score single lines: BLEU of one line is 0 without a common 4-gram.
_OF_TEXTS = "chrf"


class Change(NamedTuple):
    """A line whose outputs differ."""

    line: int  # counted from 1
    references: tuple[str, ...]
    first: str  # the output of the first system
    other: str  # the output of the other system
    first_score: float
    other_score: float
    metric: str  # the name of the metric of these scores


def most_changed(
    metric: str | None,
    first: Sequence[str],
    other: Sequence[str],
    *references: Sequence[str],
    count: int = 10,
    **options: object,
) -> list[Change]:
    """Returns the lines whose scores differ most between two systems, the largest difference first.

    Args:
      metric: the registered metric of the comparison; if it cannot score single lines (see `Metric.line_scores`), and
        for None, the lines are scored by chrF2.
      first, other: the outputs of the two systems.
      references: one or several sets of references.
      count: the greatest number of lines. Lines with equal outputs are left out.
      options: of the metric's constructor; those that the metric of the lines does not take have no effect.

    Raises:
      UserError: if the numbers of lines differ, or the metric takes fewer sets of references.
    """
    metric = metric or _OF_TEXTS
    check_references(metric, len(references))
    for outputs in (first, other):
        check_lines(outputs, *references)
    scores = _line_scores(metric, first, other, references, options)
    if scores is None:
        metric = _OF_TEXTS
        scores = _line_scores(metric, first, other, references, options)
    assert scores is not None  # chrF scores single lines
    changes = [
        Change(line, tuple(texts), *outputs, *both, metric)
        for line, (outputs, both, texts) in enumerate(zip(zip(first, other), scores, zip(*references)), start=1)
        if outputs[0] != outputs[1]
    ]
    return sorted(changes, key=lambda change: (-abs(change.first_score - change.other_score), change.line))[:count]


def _line_scores(
    metric: str,
    first: Sequence[str],
    other: Sequence[str],
    references: Sequence[Sequence[str]],
    options: Mapping[str, object],
) -> list[tuple[float, float]] | None:
    """Returns the scores of both outputs of each line; None if the metric cannot score single lines."""
    scorer = make_metric(metric, **options_taken(metric, options))
    found = [scorer.line_scores(outputs, *references) for outputs in (first, other)]
    if found[0] is None or found[1] is None:
        return None
    return list(zip(found[0], found[1], strict=True))
