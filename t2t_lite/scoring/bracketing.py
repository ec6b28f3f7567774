"""The metric for parsing: labelled bracketing F1, with readable reports and EVALB's own table."""

from collections.abc import Sequence

from t2t_lite.errors import UserError
from t2t_lite.metric import Metric, SummedStatistics
from t2t_lite.scoring.parseval import (
    COUNTED,
    ERROR,
    SHORT,
    Parseval,
    SentenceScore,
    Summary,
    f1_score,
    other_roots,
    score_trees,
    total,
)
from t2t_lite.trees.tree import UNTAGGED

# EVALB's own header, spelling included.
_HEADER = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag",
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
)
_RULE = "=" * 76


class LabelledF1(Metric):
    """Labelled bracketing F1, 0 to 100, see `parseval`.

    With `per_sentence`, `report` contains a line for each sentence, in EVALB's format. With `roots_as_top`, usual roots
    other than TOP count as little as TOP, unlike in EVALB.
    """

    def __init__(self, per_sentence: bool = False, roots_as_top: bool = False) -> None:
        self._per_sentence, self._roots_as_top = per_sentence, roots_as_top

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        return self._scored(hypotheses, references).all.f1

    def report(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        names: tuple[str, str] = ("the hypotheses", "the references"),
    ) -> list[str]:
        return parse_report(self._scored(hypotheses, references, names), self._per_sentence)

    def remarks(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[str]:
        ours, theirs = other_roots(hypotheses), other_roots(references)
        if self._roots_as_top or not ours + theirs:
            return []
        return [
            f"{ours:,} of the hypotheses and {theirs:,} of the references have a root other than TOP (ROOT, S1 or no "
            f"label), which counts as a constituent, as in EVALB; pass `roots_as_top` to leave it out"
        ]

    def resampled(self) -> SummedStatistics:
        def brackets(hypotheses: Sequence[str], references: Sequence[str]) -> list[tuple[int, int, int]]:
            sentences = self._scored(hypotheses, references).sentences
            return [(score.matched, score.gold, score.candidate) for score in sentences]

        return SummedStatistics("f1", brackets, lambda sums: f1_score(*sums))

    def line_scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
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


def parse_report(parseval: Parseval, per_sentence: bool = False) -> list[str]:
    """Returns a readable summary of all sentences and of those with at most 40 words, as lines.

    With `per_sentence`, it begins with EVALB's table for other programs: one row per sentence, then the total. The
    columns about tags show "-" if the candidates are untagged.
    """
    lines = _table(parseval) if per_sentence else []
    if lines:
        lines.append("")
    lines += _summary_lines("all sentences", parseval.all, parseval.untagged)
    lines += ["", *_summary_lines(f"sentences of at most {SHORT} words", parseval.short, parseval.untagged)]
    if any(score.status != COUNTED for score in parseval.sentences):
        lines += [
            "",
            "Error: the words differ from the gold tree, or the brackets are malformed. Skipped: no parse. Neither is "
            "scored.",
        ]
    return lines


def _table(parseval: Parseval) -> list[str]:
    lines = [*_HEADER, _RULE]
    for number, score in enumerate(parseval.sentences, 1):
        lines.append(
            f"{number:4}  {score.length:3}    {score.status}  {score.recall:6.2f} {score.precision:6.2f}"
            f"   {score.matched:3}    {score.gold:3}  {score.candidate:3}    {score.crossing:3}   {score.words:4}"
            + _tag_columns(score, "  ", 4, parseval.untagged)
        )
    sums = total([score for score in parseval.sentences if score.status == COUNTED])
    lines.append(_RULE)
    lines.append(
        f"{'':16}{sums.recall:6.2f} {sums.precision:6.2f} {sums.matched:6} {sums.gold:5} {sums.candidate:5}"
        f"  {sums.crossing:5}  {sums.words:5}" + _tag_columns(sums, " ", 5, parseval.untagged)
    )
    return lines


def _tag_columns(score: SentenceScore, gap: str, width: int, untagged: bool) -> str:
    if untagged:
        return f"{gap}{'-':>{width}}   {'-':>6}"
    return f"{gap}{score.correct_tags:{width}}   {score.tagging_accuracy:6.2f}"


def _summary_lines(title: str, summary: Summary, untagged: bool) -> list[str]:
    values = {
        "labelled F1": summary.f1,
        "recall": summary.recall,
        "precision": summary.precision,
        "complete match": summary.complete_match,
        "average crossing": summary.average_crossing,
        "no crossing": summary.no_crossing,
        "2 or less crossing": summary.at_most_two_crossing,
        "tagging accuracy": summary.tagging_accuracy,
    }
    if untagged:
        del values["tagging accuracy"]
    lines = [
        f"{title}: {summary.sentences} ({summary.valid} scored, {summary.errors} errors, {summary.skipped} skipped)",
        *(f"  {name:18} {value:6.2f}" for name, value in values.items()),
    ]
    if untagged:
        lines.append(f"  no tagging accuracy: the parser gives no parts of speech ({UNTAGGED})")
    return lines
