"""Metrics of texts: sacreBLEU's BLEU, chrF and TER (Post 2018, W18-6319), the paper's BLEU, and exact matches.

This is the only place that chooses the tokens of BLEU and TER. Usually, blanks and punctuation separate them. Languages
that are written without blanks have others, see `_TOKENIZERS`.
"""

import contextlib
import functools
import importlib.metadata
import re
from collections.abc import Callable, Sequence

from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.base import Score
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from t2t_lite.errors import UserError, nearest
from t2t_lite.metric import LANGUAGE_CODE, Metric, SummedStatistics, check_lines, figure_label

_USUAL_TOKENIZER = "13a"
# By language, sacreBLEU's tokenizers in order of preference. The dictionaries for Japanese and Korean are rarely
# installed; without them, each character is a token.
_TOKENIZERS = {"zh": ("zh",), "ja": ("ja-mecab", "char"), "ko": ("ko-mecab", "char")}
_ASIAN = ("zh", "ja")  # for TER, each character of these languages is a word
# As in tensor2tensor's get_ende_bleu.sh: s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g
_COMPOUND = re.compile(r"(\S)-(\S)")
# Whitespace that separates tokens in Python but not in multi-bleu.perl, which reads bytes: U+00A0 and others.
_OTHER_BLANK = re.compile(r"[^\S \t\n\r\f\v]")
_FEWEST_BLANKS = 0.03  # per other character; in text with blanks between words, there are usually more than 0.1


class BySacrebleu(Metric):
    """A text metric computed by sacreBLEU. `needs_blanks`: whether its tokens are separated by blanks."""

    def __init__(self, metric: SacrebleuMetric, needs_blanks: bool = False) -> None:
        self._metric, self._needs_blanks = metric, needs_blanks

    def prepared(self, lines: Sequence[str]) -> list[str]:
        return list(lines)

    def corpus_score(self, hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
        check_lines(hypotheses, *references)
        return self._metric.corpus_score(self.prepared(hypotheses), list(map(self.prepared, references)))

    def score(self, hypotheses: Sequence[str], *references: Sequence[str]) -> float:
        return self.corpus_score(hypotheses, *references).score

    def report(
        self, hypotheses: Sequence[str], *references: Sequence[str], names: tuple[str, str] = ("", "")
    ) -> list[str]:
        return [self.corpus_score(hypotheses, *references).format(signature=self.signature(len(references)))]

    def remarks(self, hypotheses: Sequence[str], *references: Sequence[str]) -> list[str]:
        """Returns a remark if the tokens of the first references are not separated by blanks. See `Metric.remarks`."""
        if not self._needs_blanks or not references or not has_hardly_a_blank(references[0]):
            return []
        return [
            "the references have hardly a blank, so whole sentences count as words, and the score means little; name "
            "their language (--language=zh of t2t-lite-score, target_language of a problem) or a tokenizer "
            "(--tokenize=char)"
        ]

    def signature(self, num_references: int = 1) -> str:
        self._metric.num_refs = num_references
        return self._metric.get_signature().format()

    def resampled(self) -> SummedStatistics:
        sums = summed(self._metric)
        return SummedStatistics(sums.name, lambda *texts: sums.of_lines(*map(self.prepared, texts)), sums.score_of_sums)


class Bleu(BySacrebleu):
    """BLEU, 0 to 100 (Papineni et al. 2002, P02-1040).

    `language` is the BCP 47 code of the texts, which determines the tokenizer; "": unknown. `tokenize` is the name of
    sacreBLEU's tokenizer; "": that of the language, or 13a. Raises UserError if it is unknown or not installed.
    """

    def __init__(self, lowercase: bool = False, language: str = "", tokenize: str = "") -> None:
        name = tokenize or tokenizer_of(language)
        super().__init__(_bleu(name, lowercase), needs_blanks=name == _USUAL_TOKENIZER and not tokenize)


def tokenizer_of(language: str) -> str:
    """Returns the name of sacreBLEU's tokenizer for a language: the first one that is installed, usually 13a."""
    *preferred, last = _TOKENIZERS.get(_primary(language), (_USUAL_TOKENIZER,))
    for name in preferred:
        with contextlib.suppress(UserError):
            _bleu(name)
            return name
    return last


def has_hardly_a_blank(lines: Sequence[str]) -> bool:
    """Returns whether a text has so few blanks that they do not separate words."""
    words = [line.split() for line in lines]
    blanks = sum(len(line) - 1 for line in words if line)
    return blanks < _FEWEST_BLANKS * sum(len(word) for line in words for word in line)


def _primary(language: str) -> str:
    first = language.replace("_", "-").partition("-")[0].lower()
    return {"cmn": "zh", "zho": "zh", "yue": "zh", "jpn": "ja", "kor": "ko"}.get(first, first)


def _bleu(tokenizer: str, lowercase: bool = False) -> BLEU:
    if tokenizer not in BLEU.TOKENIZERS:
        raise UserError(f"`tokenize={tokenizer}` is unknown{nearest(tokenizer, BLEU.TOKENIZERS)}", status=2)
    try:
        return BLEU(lowercase=lowercase, tokenize=tokenizer)
    except (Exception, SystemExit) as error:  # sacreBLEU ends the process if it cannot download a model
        reason = " ".join(str(error).split())
        raise UserError(f"`tokenize={tokenizer}`: sacreBLEU cannot use this tokenizer ({reason})") from error


class Chrf(BySacrebleu):
    """chrF2, 0 to 100 (Popović 2015, W15-3049)."""

    def __init__(self, lowercase: bool = False) -> None:
        super().__init__(CHRF(lowercase=lowercase))

    def line_scores(self, hypotheses: Sequence[str], *references: Sequence[str]) -> list[float]:
        check_lines(hypotheses, *references)
        return [self._metric.sentence_score(ours, theirs).score for ours, *theirs in zip(hypotheses, *references)]


class Ter(BySacrebleu):
    """Translation edit rate in percent, can exceed 100; ignores case (Snover et al. 2006, 2006.amta-papers.25).

    `language` is the BCP 47 code of the texts; "": unknown. In Chinese and Japanese, each character is a word.
    """

    def __init__(self, language: str = "") -> None:
        is_asian = _primary(language) in _ASIAN
        super().__init__(TER(normalized=is_asian, asian_support=is_asian), needs_blanks=not is_asian)


class PaperBleu(BySacrebleu):
    """BLEU as in the paper (Vaswani et al. 2017, section 6.1), on tokens with compounds split, 0 to 100.

    The paper's scores come from Moses' multi-bleu.perl on tokenised text, after tensor2tensor's get_ende_bleu.sh has
    split compounds at hyphens. They are higher than sacreBLEU's, and comparable only with scores computed in the same
    way. They are case-sensitive and not smoothed.

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
