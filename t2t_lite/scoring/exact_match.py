"""The share of outputs that equal a reference."""

from collections.abc import Sequence

from t2t_lite.metric import Metric, SummedStatistics, check_lines


class ExactMatch(Metric):
    """The share of outputs that equal one of their references, in percent."""

    def __init__(self, lowercase: bool = False) -> None:
        self._lowercase = lowercase

    def score(self, hypotheses: Sequence[str], *references: Sequence[str]) -> float:
        check_lines(hypotheses, *references)
        return 100.0 * sum(self._matches(hypotheses, *references)) / len(hypotheses)

    def resampled(self) -> SummedStatistics:
        return SummedStatistics(
            "exact_match",
            lambda *texts: [(match, 1) for match in self._matches(*texts)],
            lambda sums: 100.0 * sums[0] / sums[1],
        )

    def _matches(self, hypotheses: Sequence[str], *references: Sequence[str]) -> list[bool]:
        sets = [[text.lower() if self._lowercase else text for text in texts] for texts in (hypotheses, *references)]
        return [ours in theirs for ours, *theirs in zip(*sets)]
