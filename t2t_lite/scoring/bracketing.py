"""The metric for parsing: labelled bracketing F1."""

from collections.abc import Collection, Sequence

from t2t_lite.errors import UserError
from t2t_lite.scoring.metric import Metric
from t2t_lite.scoring.parse_errors import error_report
from t2t_lite.scoring.parse_report import report
from t2t_lite.scoring.parseval import ERROR, Parseval, f1_score, other_roots, score_trees
from t2t_lite.scoring.summed_statistics import SummedStatistics


class LabelledF1(Metric):
    """Labelled bracketing F1, 0 to 100, see `parseval`.

    Args:
      per_sentence: whether `report` contains a line for each sentence, in EVALB's format.
      errors: whether `report` contains tables of errors; for them, the next two, see `error_report`.
      known_words: the words of the training trees.
      n_best: the trees in the beam of each sentence.
      roots_as_top: whether usual roots other than TOP count as little as TOP, unlike in EVALB.
    """

    def __init__(
        self,
        per_sentence: bool = False,
        errors: bool = False,
        known_words: Collection[str] | None = None,
        n_best: Sequence[Sequence[str]] | None = None,
        roots_as_top: bool = False,
    ) -> None:
        self._per_sentence, self._roots_as_top = per_sentence, roots_as_top
        self._errors = errors
        self._known_words, self._n_best = known_words, n_best

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        """Returns the F1 of all sentences together. See `Metric.score` and `report`."""
        return self._scored(hypotheses, references).all.f1

    def report(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        names: tuple[str, str] = ("the hypotheses", "the references"),
    ) -> list[str]:
        """Returns F1 and the other scores of EVALB, as lines. See `Metric.report`.

        Raises a UserError if a reference is not a tree, or no hypothesis is one.
        """
        lines = report(self._scored(hypotheses, references, names), self._per_sentence)
        if self._errors:
            tables = error_report(references, hypotheses, self._known_words, self._n_best, self._roots_as_top)
            lines += ["", *tables]
        return lines

    def remarks(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[str]:
        """Returns a remark about roots that count. See `Metric.remarks`."""
        ours, theirs = other_roots(hypotheses), other_roots(references)
        if self._roots_as_top or not ours + theirs:
            return []
        return [
            f"{ours:,} of the hypotheses and {theirs:,} of the references have a root other than TOP (ROOT, S1 or no "
            f"label), which counts as a constituent, as in EVALB; pass `roots_as_top` to leave it out"
        ]

    def resampled(self) -> SummedStatistics:
        """Returns F1 as a function of (matched, gold, candidate) brackets. See `Metric.resampled`."""

        def brackets(hypotheses: Sequence[str], references: Sequence[str]) -> list[tuple[int, int, int]]:
            sentences = self._scored(hypotheses, references).sentences
            return [(score.matched, score.gold, score.candidate) for score in sentences]

        return SummedStatistics("f1", brackets, lambda sums: f1_score(*sums))

    def line_scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
        """Returns the F1 of each sentence, or 0 if it is not scored. See `Metric.line_scores`."""
        return [score.f1 for score in score_trees(references, hypotheses, roots_as_top=self._roots_as_top).sentences]

    def _scored(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        names: tuple[str, str] = ("the hypothesis file", "the references"),
    ) -> Parseval:
        scored = score_trees(references, hypotheses, names[1], self._roots_as_top)
        if all(score.status == ERROR for score in scored.sentences) and not any("(" in line for line in hypotheses):
            raise UserError(f"no trees in {names[0]}: this metric scores trees; write them in brackets, one per line")
        return scored
