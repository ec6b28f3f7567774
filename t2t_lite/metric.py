"""Metrics of outputs, and the facts about a registered metric that are known before its code is imported.

A metric is registered in `METRICS` (`t2t_lite/registry.py`) with these optional facts (defaults in parentheses):

needs               what it scores: TEXTS, TREES in brackets, or TOKENS, see below (TEXTS)
higher_is_better    whether the best checkpoint is the one with the highest score (True)
figure              its name in the evaluations of a run (the metric's name)
label               its name in reports and plots (the value of `figure`)
options             constructor arguments that are flags of t2t-lite-score (none)
several_references  whether `score` takes several sets of references (False)
beside              the metric that is always reported next to it (none)
evaluated_with      metrics that t2t-lite-eval also computes if this is the problem's metric (none)
evaluated_for       the only problems for which `evaluated_with` of another metric may name it (all)
needs_language      whether it cannot score a problem whose outputs are in an unknown language (False)

Metrics of TEXTS and TREES score decoded outputs and derive from `Metric`. Metrics of TOKENS need no decoding: they are
functions of sums over the target tokens of a split, see `token_metrics.py`.
"""

import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from t2t_lite.errors import UserError, nearest
from t2t_lite.registry import METRICS

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacrebleuMetric

T = TypeVar("T")
Numbers: TypeAlias = Sequence[float]
TEXTS, TREES, TOKENS = "texts", "trees", "tokens"
LANGUAGE_CODE = re.compile("[A-Za-z]{2,3}(-[A-Za-z0-9]+)*")  # BCP 47


class SummedStatistics:
    """A metric as a function of sums over lines, which can be resampled for intervals and paired tests.

    `of_lines` returns a list of numbers for each line, given the hypotheses and one or several sets of references.
    `score_of_sums` returns the score, given the sums of these numbers over the lines.
    """

    def __init__(
        self, name: str, of_lines: Callable[..., Sequence[Numbers]], score_of_sums: Callable[[Numbers], float]
    ) -> None:
        self.name, self.of_lines, self.score_of_sums = name, of_lines, score_of_sums


class Metric:
    """A score of decoded outputs. Subclass it, implement `score`, and register it with `@METRICS.register`.

    The other methods have defaults; reports, confidence intervals and significance tests need them.
    """

    def score(self, hypotheses: Sequence[str], *references: Sequence[str]) -> float:
        """Returns the score of a corpus.

        A metric for a single set of references may declare it as an argument: `score(self, hypotheses, references)`. A
        metric for several sets is registered with `several_references=True`.

        Args:
          hypotheses: the outputs, detokenized texts or trees in brackets; "" for a missing one.
          references: one or several sets of references, each with one line for each hypothesis.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method score(self, hypotheses, references)")

    def report(
        self,
        hypotheses: Sequence[str],
        *references: Sequence[str],
        names: tuple[str, str] = ("the hypotheses", "the references"),
    ) -> list[str]:
        """Returns the lines that t2t-lite-score prints, if they contain more than the score; otherwise [].

        Args:
          hypotheses, references: see `score`.
          names: what errors call the hypotheses and the references, such as their files.
        """
        return []

    def remarks(self, hypotheses: Sequence[str], *references: Sequence[str]) -> list[str]:
        """Returns warnings about the score of these texts, one line each: what makes it mean less than it seems.

        Args:
          hypotheses, references: see `score`.
        """
        return []

    def signature(self, num_references: int = 1) -> str:
        """Returns the signature, "name:value|..." as in sacreBLEU; "" if unknown.

        Scores are comparable only if their signatures match.

        Args:
          num_references: number of sets of references.
        """
        return ""

    def resampled(self) -> "SummedStatistics | SacrebleuMetric | None":
        """Returns this metric as a function of sums over lines, or as a sacreBLEU metric; None if it is neither.

        Confidence intervals and significance tests resample the numbers of each line, see `significance.py`.
        """
        return None

    def line_scores(self, hypotheses: Sequence[str], *references: Sequence[str]) -> list[float] | None:
        """Returns the score of each line, to find the lines that differ most; None: use chrF2.

        Args:
          hypotheses, references: see `score`.
        """
        return None


class Scored(Protocol):
    """The part of a problem that metrics use."""

    @property
    def metric(self) -> str:
        """The registered metric that scores outputs."""
        ...

    @property
    def name(self) -> str:
        """The name in the registry."""
        ...

    @property
    def output_language(self) -> str:
        """The BCP 47 code; "" if unknown."""
        ...


def metric_needs(metric: str) -> str:
    """Returns what a metric scores: TEXTS, TREES or TOKENS."""
    return METRICS.fact(metric, "needs", TEXTS)


def figure_name(metric: str) -> str:
    """Returns a metric's name in evaluations: "f1" for "parseval"."""
    return METRICS.fact(metric, "figure", metric)


def figure_label(figure: str) -> str:
    """Returns the label of a metric in reports and plots, given its name in evaluations: "BLEU" for "bleu".

    Unknown names are returned unchanged.
    """
    metric = _metric_with(figure)
    return METRICS.fact(metric, "label", figure) if metric else figure


def is_of_outputs(figure: str) -> bool:
    """Returns whether a metric, given its name in evaluations, needs decoding; True for unknown names."""
    metric = _metric_with(figure)
    return not metric or metric_needs(metric) != TOKENS


def metric_named(name: str, argument: str) -> str:
    """Returns the metric that an argument names, by its own name or by its name in evaluations ("f1").

    Messages name `argument`, with its value if that is more than the metric: "checkpoint_path=best:f1".

    Raises:
      UserError: if it does not exist; the message suggests the nearest names.
    """
    names = {}
    for metric in METRICS:
        if (other := names.setdefault(figure_name(metric), metric)) != metric:
            raise UserError(
                f"the metrics '{other}' and '{metric}' are both called '{figure_name(metric)}' in evaluations; "
                f"register one of them with another figure=NAME"
            )
    if name in METRICS:
        return name
    if metric := _metric_with(name):
        return metric
    hint = nearest(name, {*METRICS, *map(figure_name, METRICS)}, is_registered=True)
    given = argument if "=" in argument else f"{argument}={name}"
    raise UserError(f"`{given}` is unknown{hint}", status=2)


def _metric_with(figure: str) -> str | None:
    return next((metric for metric in METRICS if figure_name(metric) == figure), None)


def report(
    metric: str,
    hypotheses: Sequence[str],
    *references: Sequence[str],
    names: tuple[str, str] = ("the hypotheses", "the references"),
    **options: object,
) -> list[str]:
    """Returns the lines that t2t-lite-score prints for a metric.

    `options` go to the metric's constructor. For the other arguments see `Metric.report`.
    """
    scorer = make_metric(metric, **options)
    check_references(metric, len(references))
    lines = scorer.report(hypotheses, *references, names=names)
    return lines or [
        f"{figure_label(figure_name(metric))} = {compute_score(metric, scorer, hypotheses, *references):.2f}"
    ]


def make_metric(name: str, **options: object) -> Metric:
    """Returns the output metric called `name`, constructed with the given options; see `options_for`.

    Raises:
      UserError: if a plug-in registered something else.
    """
    entry = METRICS[name]
    if not (isinstance(entry, type) and issubclass(entry, Metric)):
        raise UserError(f"metric '{name}' is not a class derived from Metric")
    return entry(**options)


def options_for(metric: str, problem: Scored) -> dict[str, str]:
    """Returns the options of a metric that a problem determines: the language of its outputs, if known and accepted."""
    takes_language = "language" in METRICS.fact(metric, "options", ())
    return {"language": problem.output_language} if takes_language and problem.output_language else {}


def knows_language(metric: str, problem: Scored) -> bool:
    """Returns whether the problem has an output language, or the metric does not need it."""
    return bool(problem.output_language) or not METRICS.fact(metric, "needs_language", False)


def check_language(metric: str, problem: Scored, argument: str = "metric") -> None:
    """Raises UserError if the metric needs a language that the problem lacks; `argument` names the metric."""
    if not knows_language(metric, problem):
        raise UserError(
            f"`{argument}={metric}` needs the language of the outputs, which '{problem.name}' does not name "
            f"(Problem.target_language); score files with t2t-lite-score --metric={metric} --language=CODE",
            status=2,
        )


def options_taken(metric: str, options: Mapping[str, T]) -> dict[str, T]:
    """Returns the options that the constructor of a metric takes."""
    return {name: value for name, value in options.items() if name in METRICS.fact(metric, "options", ())}


def with_companions(metrics: Iterable[str]) -> list[str]:
    """Returns metrics without duplicates, each followed by the metric that is always reported next to it, if any."""
    with_duplicates = [each for name in metrics for each in (name, METRICS.fact(name, "beside", "")) if each]
    return list(dict.fromkeys(with_duplicates))


def references_taken(metric: str, references: Sequence[T]) -> Sequence[T]:
    """Returns the sets of references that a metric takes: all of them, or the first."""
    return references if METRICS.fact(metric, "several_references", False) else references[:1]


def compute_score(name: str, metric: Metric, hypotheses: Sequence[str], *references: Sequence[str]) -> float:
    """Returns the score that `metric.score` computes, after checks.

    Raises:
      UserError: if the score is not a number, or there are several sets of references and the metric takes one.
    """
    check_references(name, len(references))
    score = metric.score(hypotheses, *references)
    if not isinstance(score, numbers.Real):
        raise UserError(f"metric '{name}': the score is {score!r:.60}, not a number; return a number from score()")
    return float(score)


def check_references(metric: str, number: int) -> None:
    """Raises UserError if a metric does not accept this number of sets of references."""
    if number > 1 and not METRICS.fact(metric, "several_references", False):
        several = ", ".join(METRICS.having("several_references", True))
        raise UserError(
            f"metric '{metric}' takes one set of references, not {number}; metrics that take several: {several}",
            status=2,
        )


def check_lines(hypotheses: Sequence[str], *references: Sequence[str]) -> None:
    """Raises UserError if the numbers of lines differ, or there is nothing to score."""
    for number, lines in enumerate(references, start=1):
        if len(hypotheses) != len(lines):
            which = f" in set {number}" if len(references) > 1 else ""
            raise UserError(
                f"{len(hypotheses)} hypotheses but {len(lines)} references{which}; pass one reference per line"
            )
    if not references:
        raise UserError("there are no references; pass at least one set")
    if not hypotheses:
        raise UserError("nothing to score: both files are empty")


def metrics_of_outputs(problem: Scored, *names: str) -> list[str]:
    """Returns the output metrics of an evaluation: the problem's metric, those in `names`, and their companions."""
    named = [metric_named(name, "metric") for name in names]
    return with_companions([problem.metric, *(metric for metric in named if metric_needs(metric) != TOKENS)])


def check_metric(name: str, problem: Scored, argument: str = "eval_metric") -> None:
    """Raises UserError if outputs of the problem cannot be scored by a metric, which `argument` names."""
    metric = metric_named(name, argument)
    if metric_needs(metric) not in (TOKENS, metric_needs(problem.metric)):
        raise UserError(
            f"`{argument}={name}`: '{problem.name}' is scored by {figure_name(problem.metric)}; use that or loss",
            status=2,
        )
    check_language(metric, problem, argument)
