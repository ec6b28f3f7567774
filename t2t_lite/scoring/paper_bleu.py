"""BLEU as in the paper (Vaswani et al. 2017, section 6.1), on tokens with compounds split.

The paper's scores come from Moses' multi-bleu.perl on tokenised text, after tensor2tensor's get_ende_bleu.sh has split
compounds at hyphens. They are higher than sacreBLEU's, and comparable only with scores computed in the same way. They
are case-sensitive and not smoothed.
"""

import functools
import importlib.metadata
import re
from collections.abc import Callable, Sequence

from sacrebleu.metrics.bleu import BLEU, BLEUScore

from t2t_lite.errors import UserError
from t2t_lite.metric import LANGUAGE_CODE, figure_label
from t2t_lite.scoring.sacrebleu_metrics import BySacrebleu

# As in get_ende_bleu.sh: s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g
_COMPOUND = re.compile(r"(\S)-(\S)")
# Whitespace that separates tokens in Python but not in multi-bleu.perl, which reads bytes: U+00A0 and others.
_OTHER_BLANK = re.compile(r"[^\S \t\n\r\f\v]")


class PaperBleu(BySacrebleu):
    """BLEU of tokens with compounds split, as multi-bleu.perl computes it, 0 to 100.

    `language` is the BCP 47 code of the texts, which determines their tokenisation; languages without rules in Moses
    are tokenised as English. With `tokenized`, texts must be tokenised already, with compounds split.
    """

    def __init__(self, language: str = "", tokenized: bool = False, lowercase: bool = False) -> None:
        if not language and not tokenized:
            raise UserError(
                "metric 'paper_bleu' needs the language of the texts, which determines their tokens; pass `language`, "
                "such as `language=de`, or `tokenized` if they are tokenised already",
                status=2,
            )
        if language and not LANGUAGE_CODE.fullmatch(language):
            raise UserError(f"`language={language}` is not a language code; pass one such as de", status=2)
        super().__init__(BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True), not tokenized)
        self._language = "" if tokenized else language
        version = importlib.metadata.version("sacremoses")
        self._about = "tok:given" if tokenized else f"lang:{language}|tok:sacremoses-{version}|split:hyphens"
        self._case = "lc" if lowercase else "mixed"

    def prepared(self, lines: Sequence[str]) -> list[str]:
        if self._language:
            lines = [tokens_with_split_compounds(line, self._language) for line in lines]
        return [_OTHER_BLANK.sub(lambda blank: f"U+{ord(blank[0]):04X}", line) for line in lines]

    def report(
        self, hypotheses: Sequence[str], *references: Sequence[str], names: tuple[str, str] = ("", "")
    ) -> list[str]:
        """Returns the line that multi-bleu.perl prints, with our label and a signature. See `Metric.report`."""
        del names
        score = self.corpus_score(hypotheses, *references)
        assert isinstance(score, BLEUScore)
        precisions = "/".join(f"{precision:.1f}" for precision in score.precisions)
        return [
            f"{figure_label('paper_bleu')}|{self.signature(len(references))} = {score.score:.2f}, {precisions} "
            f"(BP={score.bp:.3f}, ratio={score.ratio:.3f}, hyp_len={score.sys_len}, ref_len={score.ref_len})"
        ]

    def signature(self, num_references: int = 1) -> str:
        return f"nrefs:{num_references}|case:{self._case}|{self._about}|smooth:none"


def tokens_with_split_compounds(text: str, language: str) -> str:
    """Returns a text's tokens, separated by spaces: Moses' tokens, with escapes, and compounds split at hyphens.

    `text` is a detokenized line, and `language` its BCP 47 code.
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", _tokenizer(language)(text))


@functools.cache
def _tokenizer(language: str) -> Callable[[str], str]:
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language.partition("-")[0].lower())
    return lambda text: " ".join(tokenizer.tokenize(text, escape=True))
