"""Scores of outputs and of target tokens, with their meanings."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.metric import (
    TOKENS,
    check_language,
    compute_score,
    figure_label,
    figure_name,
    knows_language,
    make_metric,
    metric_named,
    metric_needs,
    options_for,
    references_taken,
    with_companions,
)
from t2t_lite.registry import METRICS
from t2t_lite.scoring.significance import interval
from t2t_lite.scoring.token_metrics import TokenSums, scores_of_tokens

PER_WORD = "perplexity_per_word"
_NOTE = "Note: "
ONLY_TREES = "_only_trees"  # the name suffix of scores after a search among trees only


@dataclasses.dataclass(frozen=True)
class Figure:
    name: str  # its name, such as "bleu"
    label: str  # its name in reports
    meaning: str  # one line
    score: float
    signature: str = ""  # scores are comparable only if their signatures match; "" if unknown
    # low, high: the 95% confidence interval by bootstrap resampling; None: not known.
    low: float | None = None
    high: float | None = None
    metric: str = ""  # the name of the registered output metric; "" for a metric of tokens

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def note(self) -> str:
        """What makes the score mean less than it seems; "" if nothing does. It is a part of the meaning."""
        return self.meaning.partition(_NOTE)[2]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Figure":
        """Returns the figure with these fields. A score of None, which stands for a non-finite number, becomes NaN."""
        return cls(**{**values, "score": math.nan if values["score"] is None else values["score"]})


def usual_metrics(problem: Problem) -> list[str]:
    """Returns the output metrics in every evaluation of a problem: its own and those that accompany it."""
    if not problem.has_inputs:
        return []
    check_language(problem.metric, problem)
    others = METRICS.fact(problem.metric, "evaluated_with", ())
    own = [name for name in others if problem.name in METRICS.fact(name, "evaluated_for", (problem.name,))]
    return with_companions([problem.metric, *(name for name in own if knows_language(name, problem))])


def requested_metrics(names: Iterable[str], problem: Problem) -> list[str]:
    """Returns the requested output metrics, given their own names or their names in evaluations, such as "f1".

    Metrics of tokens are left out, because every evaluation has them.
    """
    metrics = []
    for name in names:
        metric = metric_named(name, "metric")
        needs = metric_needs(metric)
        if needs == TOKENS:
            continue
        if not problem.has_inputs or needs != metric_needs(problem.metric):
            own = f"is scored by {figure_name(problem.metric)}" if problem.has_inputs else "has no outputs to score"
            raise UserError(f"`metric={name}`: '{problem.name}' {own}; omit this metric", status=2)
        check_language(metric, problem)
        metrics.append(metric)
    return with_companions(metrics)


def figure_of_outputs(
    metric: str, problem: Problem, hypotheses: Sequence[str], references: Sequence[Sequence[str]], suffix: str = ""
) -> Figure:
    """Returns the score of outputs by a metric. One that takes a single set of references gets the first.

    `suffix` is ONLY_TREES if the search was among trees only.
    """
    references = references_taken(metric, references)
    options: dict[str, Any] = {**options_for(metric, problem)}
    scorer = make_metric(metric, **options)
    known = interval(metric, hypotheses, *references, **options)
    score = compute_score(metric, scorer, hypotheses, *references)
    return Figure(
        figure_name(metric) + suffix,
        figure_label(figure_name(metric)) + (" among well-formed trees only" if suffix else ""),
        " ".join([METRICS.summary(metric), *(f"{_NOTE}{each}." for each in scorer.remarks(hypotheses, *references))]),
        score,
        scorer.signature(len(references)),
        known.low if known else None,
        known.high if known else None,
        metric,
    )


def figures_of_tokens(sums: TokenSums, words: int | None, lines: int) -> list[Figure]:
    """Returns the scores with teacher forcing. `words` is None if words are meaningless, as in trees."""
    figures = []
    for name, score in scores_of_tokens(sums).items():
        figures.append(Figure(figure_name(name), figure_label(figure_name(name)), METRICS.summary(name), score))
    if words is not None:
        score = math.exp(min(sums.plain / (words + lines), 700.0))
        meaning = (
            f"exp of the nats per word: the sum over all {sums.tokens:,.0f} target tokens, including end symbols, "
            f"divided by {words:,} whitespace-separated words plus {lines:,} line ends."
        )
        figures.append(Figure(PER_WORD, "perplexity per word", meaning, score))
    return figures
