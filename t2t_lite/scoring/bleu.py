"""Corpus BLEU and chrF by sacreBLEU (Post 2018, W18-6319), with the signatures that make scores comparable."""

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from t2t_lite.errors import UserError


def score_lines(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False) -> list[str]:
    """Returns sacreBLEU's own lines for BLEU (13a tokens) and chrF2, each with its signature.

    Args:
      hypotheses: detokenised outputs, one sentence each.
      references: one reference for each hypothesis.
      lowercase: whether to ignore case.

    Raises:
      UserError: if the numbers of lines differ, or there is nothing to score.
    """
    _check(hypotheses, references)
    lines = []
    for metric in (BLEU(lowercase=lowercase), CHRF(lowercase=lowercase)):
        score = metric.corpus_score(list(hypotheses), [list(references)])
        lines.append(score.format(signature=metric.get_signature().format()))
    return lines


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False) -> float:
    """Returns BLEU, 0 to 100. Arguments and errors are those of `score_lines`."""
    _check(hypotheses, references)
    return BLEU(lowercase=lowercase).corpus_score(list(hypotheses), [list(references)]).score


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise UserError(f"{len(hypotheses)} hypotheses but {len(references)} references: give one reference per line")
    if not hypotheses:
        raise UserError("nothing to score: both files are empty")
