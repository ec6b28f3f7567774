"""Metrics as functions of sums over lines, which can be resampled for confidence intervals and paired tests."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sacrebleu.metrics.base import Metric as SacrebleuMetric

Numbers: TypeAlias = Sequence[float]


class SummedStatistics:
    """A metric as a function of sums over lines.

    `of_lines` returns a list of numbers for each line, given the hypotheses and one or several sets of references.
    `score_of_sums` returns the score, given the sums of these numbers over the lines.
    """

    def __init__(
        self, name: str, of_lines: Callable[..., Sequence[Numbers]], score_of_sums: Callable[[Numbers], float]
    ) -> None:
        self.name, self.of_lines, self.score_of_sums = name, of_lines, score_of_sums


def summed(metric: SummedStatistics | SacrebleuMetric) -> SummedStatistics:
    """Converts a sacreBLEU metric to `SummedStatistics`; returns `SummedStatistics` unchanged."""
    if isinstance(metric, SummedStatistics):
        return metric
    # sacreBLEU can resample, but has no public function for several tests on the same samples. These are the
    # only two private methods used here; tests/scoring/test_significance.py compares the results with sacreBLEU's.
    return SummedStatistics(
        type(metric).__name__,
        lambda hypotheses, *references: metric._extract_corpus_statistics(hypotheses, references),
        lambda sums: metric._compute_score_from_stats(list(sums)).score,
    )
