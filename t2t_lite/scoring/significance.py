"""How certain a score is: bootstrap confidence intervals, and paired tests of the difference between systems.

Both resample the lines of a corpus (Koehn 2004, W04-3250) as sacreBLEU does, with its default seed, so
that they equal what the command `sacrebleu` says with --confidence, --paired-bs and --paired-ar, except that a system
is never significantly different from itself.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.significance import Result, _compute_p_value, _paired_ar_test

from t2t_lite.errors import UserError
from t2t_lite.scoring.metric import check_lines, check_references, make_metric
from t2t_lite.scoring.summed_statistics import SummedStatistics

BOOTSTRAP, RANDOMISATION = "bootstrap", "randomisation"
# The paired tests, with sacreBLEU's numbers of samples.
TESTS = {BOOTSTRAP: 1000, RANDOMISATION: 10_000}

Statistics: TypeAlias = list[list[float]]


class Interval(NamedTuple):
    """A score with its 95% confidence interval by bootstrap resampling."""

    score: float
    low: float
    high: float


class Comparison(NamedTuple):
    """A system's score with its 95% confidence interval, and its difference from the first system."""

    name: str
    score: float
    low: float
    high: float
    p_value: float | None  # how probable so large a difference is by chance; None: this is the first system


def interval(
    metric: str,
    hypotheses: Sequence[str],
    *references: Sequence[str],
    num_samples: int = TESTS[BOOTSTRAP],
    seed: int = 12345,
    **options: object,
) -> Interval | None:
    """Returns a score with its confidence interval; None if the metric cannot be resampled.

    Args:
      metric: its registered name.
      hypotheses, references: see `Metric.score`.
      num_samples: number of samples of the lines, drawn with replacement.
      seed: the seed of these samples.
      options: of the metric's constructor.

    Raises:
      UserError: if the numbers of lines differ, or the metric takes fewer sets of references.
    """
    metric_of_sums = _resampled(metric, len(references), options)
    if metric_of_sums is None:
        return None
    lines = _statistics(metric_of_sums, hypotheses, references)
    return _System(metric_of_sums, lines, num_samples, seed).interval()


def compare(
    metric: str,
    systems: Mapping[str, Sequence[str]],
    *references: Sequence[str],
    test: str = BOOTSTRAP,
    num_samples: int | None = None,
    seed: int = 12345,
    **options: object,
) -> list[Comparison]:
    """Compares systems with the first of them.

    Args:
      metric: its registered name.
      systems: the hypotheses of each system, by its name.
      references: see `Metric.score`.
      test: "bootstrap", paired bootstrap resampling (Koehn 2004), or "randomisation", paired approximate randomisation
        (Riezler and Maxwell 2005, W05-0908).
      num_samples: number of samples of the test; None: 1,000 for bootstrap, 10,000 for randomisation. The confidence
        intervals are of as many samples with bootstrap, of 1,000 with randomisation.
      seed: the seed of the samples.
      options: of the metric's constructor.

    Returns:
      a `Comparison` for each system. The p-value of a system whose lines all score as the first one's is 1.

    Raises:
      UserError: if the numbers of lines differ, the metric takes fewer sets of references or cannot be resampled, or
        there is no such test or no system.
    """
    if not systems:
        raise UserError("`systems` is empty; give at least one")
    if test not in TESTS:
        raise UserError(f"`test={test}` is unknown; give {' or '.join(TESTS)}", status=2)
    metric_of_sums = _resampled(metric, len(references), options)
    if metric_of_sums is None:
        raise UserError(f"metric '{metric}' cannot be resampled, which a paired test needs: it has no sums over lines")
    samples = num_samples or TESTS[test]
    of_interval = samples if test == BOOTSTRAP else TESTS[BOOTSTRAP]
    found = [
        _System(metric_of_sums, _statistics(metric_of_sums, hypotheses, references), of_interval, seed)
        for hypotheses in systems.values()
    ]
    first, *others = found
    p_values = [None, *(_p_value(metric_of_sums, first, other, test, samples, seed) for other in others)]
    return [Comparison(name, *system.interval(), p_value) for name, system, p_value in zip(systems, found, p_values)]


def _resampled(metric: str, num_references: int, options: Mapping[str, object]) -> SacrebleuMetric | None:
    check_references(metric, num_references)
    return make_metric(metric, **options).resampled()


def _statistics(metric: SacrebleuMetric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
    """Returns the numbers of each line whose sums determine the score."""
    check_lines(hypotheses, *references)
    return metric._extract_corpus_statistics(list(hypotheses), [list(lines) for lines in references])


class _System:
    """The statistics of a system's lines, with the scores of bootstrap samples of them.

    Args:
      metric: makes scores of sums.
      lines: the statistics.
      num_samples, seed: see `interval`.

    Attributes:
      lines: the statistics.
      score: the score.
      samples: the score of each sample.
    """

    def __init__(self, metric: SacrebleuMetric, lines: Statistics, num_samples: int, seed: int) -> None:
        self.lines = lines
        self.score = float(metric._aggregate_and_compute(lines).score)
        # The samples of sacrebleu.significance, which has all of them in memory at a time.
        numbers = np.array(lines, dtype="float32")
        generator = np.random.default_rng(seed)
        sums = (numbers[generator.choice(len(lines), size=len(lines))].sum(0) for _ in range(num_samples))
        self.samples = np.array([metric._compute_score_from_stats(each).score for each in sums])

    def interval(self) -> Interval:
        """Returns the score with its confidence interval."""
        scores = np.sort(self.samples)
        outside = len(scores) // 40  # 2.5% on each side
        return Interval(self.score, float(scores[outside]), float(scores[len(scores) - outside - 1]))


def _p_value(
    metric: SacrebleuMetric, first: _System, other: _System, test: str, num_samples: int, seed: int
) -> float | None:
    """Returns the p-value of the difference between two systems."""
    if first.lines == other.lines:
        return 1.0  # sacreBLEU's bootstrap test would count no sample as extreme and say 0.001
    if test == BOOTSTRAP:
        return _p_by_bootstrap(first, other)
    return _p_by_randomisation(metric, first, other, num_samples, seed)


def _p_by_bootstrap(first: _System, other: _System) -> float:
    """Returns how often the difference of samples is further from its mean than the difference is large."""
    differences = np.abs(other.samples - first.samples)
    return _compute_p_value(differences - differences.mean(), abs(first.score - other.score))


def _p_by_randomisation(
    metric: SacrebleuMetric, first: _System, other: _System, num_samples: int, seed: int
) -> float | None:
    """Returns how often the difference is larger if the outputs of lines are exchanged at random."""
    # The statistics stand in the place of texts, so that they need not be made again.
    of_lines = SummedStatistics(
        "score", lambda lines: lines, lambda sums: metric._compute_score_from_stats(list(sums)).score
    )
    before = {"score": (np.array(first.lines), Result(first.score))}
    texts = cast(Sequence[str], other.lines)
    _, results = _paired_ar_test(before, "", texts, None, {"score": of_lines}, num_samples, -1, seed)
    return results["score"].p_value
