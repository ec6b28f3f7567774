"""The share of outputs that equal their reference."""

from collections.abc import Sequence

from t2t_lite.scoring.metric import Metric, check_lines


class ExactMatch(Metric):
    """The share of outputs that equal their reference, in percent.

    Args:
      lowercase: whether to ignore case.
    """

    def __init__(self, lowercase: bool = False) -> None:
        self._lowercase = lowercase

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        """Returns the share, 0 to 100. See `Metric.score`."""
        check_lines(hypotheses, references)
        pairs = zip(map(self._compared, hypotheses), map(self._compared, references))
        return 100.0 * sum(ours == theirs for ours, theirs in pairs) / len(hypotheses)

    def _compared(self, text: str) -> str:
        return text.lower() if self._lowercase else text
