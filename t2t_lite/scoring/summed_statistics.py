"""A metric as a function of sums over lines, in the form in which sacreBLEU resamples metrics."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.base import Score
from sacrebleu.utils import sum_of_lists

Numbers: TypeAlias = Sequence[float]


class SummedStatistics(SacrebleuMetric):
    """A metric of sacreBLEU that is made of two functions.

    Args:
      name: the metric's name.
      of_lines: returns a list of numbers for each line, given the hypotheses and one or several sets of references.
      score_of_sums: returns the score, given the sums of these numbers over the lines.
    """

    def __init__(
        self, name: str, of_lines: Callable[..., Sequence[Numbers]], score_of_sums: Callable[[Numbers], float]
    ) -> None:
        super().__init__()
        self._name = name
        self._of_lines = of_lines
        self._score_of_sums = score_of_sums

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> list[list[float]]:
        return [list(numbers) for numbers in self._of_lines(hypotheses, *(references or ()))]

    def _compute_score_from_stats(self, stats: Numbers) -> Score:
        return Score(self._name, self._score_of_sums(stats))

    def _aggregate_and_compute(self, stats: list[list[float]]) -> Score:
        return self._compute_score_from_stats(sum_of_lists(stats))

    # The steps by which sacreBLEU's own metrics make their statistics.

    def _preprocess_segment(self, sent: str) -> NoReturn:
        raise NotImplementedError("the statistics are made by of_lines")

    def _extract_reference_info(self, refs: Sequence[str]) -> NoReturn:
        raise NotImplementedError("the statistics are made by of_lines")

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> NoReturn:
        raise NotImplementedError("the statistics are made by of_lines")
