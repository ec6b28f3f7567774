"""How certain a score is: bootstrap confidence intervals, and paired tests of the difference between systems.

Both resample the lines of a corpus (Koehn 2004, W04-3250), with sacreBLEU's code and its default seed, so that they
equal what the command `sacrebleu` says with --confidence, --paired-bs and --paired-ar.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.significance import Result, _paired_ar_test, _paired_bs_test

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
    return _interval(metric_of_sums, _statistics(metric_of_sums, hypotheses, references), num_samples, seed)


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
        there is no such test.
    """
    if test not in TESTS:
        raise UserError(f"`test={test}` is unknown; give {' or '.join(TESTS)}", status=2)
    metric_of_sums = _resampled(metric, len(references), options)
    if metric_of_sums is None:
        raise UserError(f"metric '{metric}' cannot be resampled, which a paired test needs: it has no sums over lines")
    samples = num_samples or TESTS[test]
    of_interval = samples if test == BOOTSTRAP else TESTS[BOOTSTRAP]
    first, *others = (_statistics(metric_of_sums, hypotheses, references) for hypotheses in systems.values())
    p_values = [None, *(_p_value(metric_of_sums, first, other, test, samples, seed) for other in others)]
    return [
        Comparison(name, *_interval(metric_of_sums, lines, of_interval, seed), p_value)
        for name, lines, p_value in zip(systems, (first, *others), p_values)
    ]


def _resampled(metric: str, num_references: int, options: Mapping[str, object]) -> SacrebleuMetric | None:
    check_references(metric, num_references)
    return make_metric(metric, **options).resampled()


def _statistics(metric: SacrebleuMetric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
    """Returns the numbers of each line whose sums determine the score."""
    check_lines(hypotheses, *references)
    return metric._extract_corpus_statistics(list(hypotheses), [list(lines) for lines in references])


def _interval(metric: SacrebleuMetric, lines: Statistics, num_samples: int, seed: int) -> Interval:
    # What sacrebleu.significance does, which has all samples in memory at a time, and takes no seed as an argument.
    numbers = np.array(lines, dtype="float32")
    generator = np.random.default_rng(seed)
    samples = (numbers[generator.choice(len(lines), size=len(lines))].sum(0) for _ in range(num_samples))
    scores = sorted(float(metric._compute_score_from_stats(sums).score) for sums in samples)
    outside = num_samples // 40  # 2.5% on each side
    score = float(metric._aggregate_and_compute(lines).score)
    return Interval(score, scores[outside], scores[num_samples - outside - 1])


def _p_value(
    metric: SacrebleuMetric, first: Statistics, other: Statistics, test: str, num_samples: int, seed: int
) -> float | None:
    """Returns the p-value of the difference between two systems."""
    if first == other:
        return 1.0  # sacreBLEU's bootstrap test would count no sample as extreme and say 0.001
    # The statistics stand in the place of texts, so that they need not be made again.
    of_lines = SummedStatistics(
        "score", lambda lines: lines, lambda sums: metric._compute_score_from_stats(list(sums)).score
    )
    test_function = _paired_bs_test if test == BOOTSTRAP else _paired_ar_test
    before = {"score": (np.array(first), Result(of_lines._aggregate_and_compute(first).score))}
    texts = cast(Sequence[str], other)
    _, results = test_function(before, "", texts, None, {"score": of_lines}, num_samples, -1, seed)
    return results["score"].p_value
