"""Metrics of outputs, and what is known of a registered metric before its code is imported.

A metric is registered in `METRICS` (`t2t_lite/registry.py`) with these facts, all optional:

needs              what it scores: TEXTS (the default), TREES in brackets, or TOKENS, see below
higher_is_better   whether the best checkpoint is the one with the highest score; True
figure             its name in the evaluations of a run; the metric's name
label              its name in reports and plots; the figure's name
options            names of the arguments of its constructor that are flags of t2t-lite-score; none

Metrics of TEXTS and TREES score decoded outputs, and derive from `Metric`. Metrics of TOKENS need no decoding: they are
functions of the sums over the target tokens of a split, see `token_metrics.py`.
"""

import numbers
from collections.abc import Sequence

from t2t_lite.errors import UserError, nearest
from t2t_lite.registry import METRICS

TEXTS, TREES, TOKENS = "texts", "trees", "tokens"


class Metric:
    """A score of decoded outputs. Subclass it, implement `score`, and register it with `@METRICS.register`."""

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        """Returns the score of a corpus.

        Args:
          hypotheses: the outputs, detokenized texts or trees in brackets; "" where there is none.
          references: one for each hypothesis.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method score(self, hypotheses, references)")

    def report(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        names: tuple[str, str] = ("the hypotheses", "the references"),
    ) -> list[str]:
        """Returns the lines of t2t-lite-score, if it prints more than the score; otherwise [].

        Args:
          hypotheses, references: see `score`.
          names: what errors call them, such as their files.
        """
        del hypotheses, references, names
        return []


def needs_of(metric: str) -> str:
    """Returns what a metric scores: TEXTS, TREES or TOKENS."""
    return METRICS.fact(metric, "needs", TEXTS)


def figure_of(metric: str) -> str:
    """Returns the name of a metric's figure in evaluations: "f1" of "parseval"."""
    return METRICS.fact(metric, "figure", metric)


def label_of(figure: str) -> str:
    """Returns what reports and plots call a figure: "BLEU" for "bleu"; unknown figures have their own name."""
    metric = _metric_with(figure)
    return METRICS.fact(metric, "label", figure) if metric else figure


def is_of_outputs(figure: str) -> bool:
    """Returns whether a figure needs decoding; of unknown figures, which plug-ins have registered, True."""
    metric = _metric_with(figure)
    return not metric or needs_of(metric) != TOKENS


def metric_named(name: str, argument: str) -> str:
    """Returns the metric that an argument names, by its own name or by that of its figure ("f1").

    Raises:
      UserError: if there is none; the message suggests the nearest names.
    """
    names = {}
    for metric in METRICS:
        if (other := names.setdefault(figure_of(metric), metric)) != metric:
            raise UserError(f"the metrics '{other}' and '{metric}' have the same figure '{figure_of(metric)}'")
    if name in METRICS:
        return name
    if metric := _metric_with(name):
        return metric
    hint = nearest(name, {*METRICS, *map(figure_of, METRICS)})
    if hint.startswith("; known"):
        hint += ". If a plug-in registers it, give `t2t_usr_dir`"
    raise UserError(f"`{argument}={name}` is unknown{hint}", status=2)


def _metric_with(figure: str) -> str | None:
    return next((metric for metric in METRICS if figure_of(metric) == figure), None)


def report(
    metric: str, hypotheses: Sequence[str], references: Sequence[str], names: tuple[str, str], **options: object
) -> list[str]:
    """Returns the lines of t2t-lite-score for a metric. Arguments: see `Metric.report`; options: the constructor's."""
    scorer = make_metric(metric, **options)
    lines = scorer.report(hypotheses, references, names)
    return lines or [f"{label_of(figure_of(metric))} = {score_of(metric, scorer, hypotheses, references):.2f}"]


def make_metric(name: str, **options: object) -> Metric:
    """Returns the metric of outputs called `name`; options: its constructor's.

    Raises:
      UserError: if a plug-in has registered something else.
    """
    entry = METRICS[name]
    if not (isinstance(entry, type) and issubclass(entry, Metric)):
        raise UserError(f"metric '{name}' is not a class derived from Metric")
    return entry(**options)


def score_of(name: str, metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Returns `metric.score`; raises UserError if it is no number."""
    score = metric.score(hypotheses, references)
    if not isinstance(score, numbers.Real):
        raise UserError(f"metric '{name}': its score is {score!r:.60}, not a number")
    return float(score)


def check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises UserError if the numbers of lines differ, or there is nothing to score."""
    if len(hypotheses) != len(references):
        raise UserError(f"{len(hypotheses)} hypotheses but {len(references)} references: give one reference per line")
    if not hypotheses:
        raise UserError("nothing to score: both files are empty")
