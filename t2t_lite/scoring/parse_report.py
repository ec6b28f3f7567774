"""Readable reports of parse scores, and EVALB's own table."""

from t2t_lite.scoring.parseval import COUNTED, SHORT, Parseval, SentenceScore, Summary, total
from t2t_lite.trees.tree import UNTAGGED

# EVALB's own header, spelling included.
_HEADER = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag",
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
)
_RULE = "=" * 76


def report(parseval: Parseval, per_sentence: bool = False) -> list[str]:
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
