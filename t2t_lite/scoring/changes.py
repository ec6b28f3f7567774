"""Scores of single lines, and the lines that changed most between two systems."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite.metric import check_lines, check_references, figure_label, figure_name, make_metric, options_taken

# Scores the lines if the metric cannot score single lines. For example, BLEU is 0 without a common 4-gram.
_OF_TEXTS = "chrf"


class Change(NamedTuple):
    """A line on which the outputs of two systems differ."""

    line: int  # counted from 1
    references: tuple[str, ...]
    first: str  # the output of the first system
    other: str  # the output of the other system
    first_score: float
    other_score: float
    metric: str  # the name of the metric for these scores

    def shown(self, first: str, other: str, sources: Sequence[str] | None) -> list[str]:
        """Returns a line with the scores, then a titled line for each text. `first` and `other` name the systems."""
        texts = [] if sources is None else [("source", sources[self.line - 1])]
        texts += [*(("reference", text) for text in self.references), (first, self.first), (other, self.other)]
        width = max(len(title) for title, _ in texts)
        label = figure_label(figure_name(self.metric))
        scores = f"line {self.line}: {label} {self.first_score:.2f} -> {self.other_score:.2f}"
        return [scores, *(f"{title:{width}}  {text}" for title, text in texts)]

    def to_json(self, sources: Sequence[str] | None) -> dict[str, Any]:
        return {"source": None if sources is None else sources[self.line - 1], **self._asdict()}


def most_changed(
    metric: str | None,
    first: Sequence[str],
    other: Sequence[str],
    *references: Sequence[str],
    count: int = 10,
    **options: object,
) -> list[Change]:
    """Returns the `count` lines whose scores differ most between two systems, with the largest difference first.

    Lines are scored by `metric` or, if it is None or cannot score single lines (see `Metric.line_scores`), by chrF2.
    Options that this metric does not take have no effect. Lines with equal outputs are omitted.
    """
    by, theirs = scores_of_lines(metric, other, *references, **options)
    own, ours = scores_of_lines(by, first, *references, **options)
    if own != by:  # the metric can score only one system's lines
        by, theirs = scores_of_lines(own, other, *references, **options)
    scores = list(zip(ours, theirs, strict=True))
    changes = [
        Change(line, tuple(texts), *outputs, *both, by)
        for line, (outputs, both, texts) in enumerate(zip(zip(first, other), scores, zip(*references)), start=1)
        if outputs[0] != outputs[1]
    ]
    return sorted(changes, key=lambda change: (-abs(change.first_score - change.other_score), change.line))[:count]


def scores_of_lines(
    metric: str | None, hypotheses: Sequence[str], *references: Sequence[str], **options: object
) -> tuple[str, list[float]]:
    metric = metric or _OF_TEXTS
    check_references(metric, len(references))
    check_lines(hypotheses, *references)
    scores = _line_scores(metric, hypotheses, references, options)
    if scores is None:
        metric = _OF_TEXTS
        scores = _line_scores(metric, hypotheses, references, options)
    assert scores is not None  # chrF scores single lines
    return metric, scores


def _line_scores(
    metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]], options: Mapping[str, object]
) -> list[float] | None:
    """Returns the score of each line; None if the metric cannot score single lines."""
    return make_metric(metric, **options_taken(metric, options)).line_scores(outputs, *references)
