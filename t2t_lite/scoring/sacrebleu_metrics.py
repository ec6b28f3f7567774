"""BLEU, chrF and TER by sacreBLEU (Post 2018, W18-6319), with signatures that make scores comparable."""

from collections.abc import Sequence

from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.base import Score
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from t2t_lite.scoring.metric import Metric, check_lines
from t2t_lite.scoring.summed_statistics import SummedStatistics, summed


class BySacrebleu(Metric):
    """A text metric computed by sacreBLEU."""

    def __init__(self, metric: SacrebleuMetric) -> None:
        self._metric = metric

    def prepared(self, lines: Sequence[str]) -> list[str]:
        """Returns lines in the form passed to sacreBLEU."""
        return list(lines)

    def corpus_score(self, hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
        """Returns sacreBLEU's score of a corpus. Arguments and errors: see `check_lines`."""
        check_lines(hypotheses, *references)
        return self._metric.corpus_score(self.prepared(hypotheses), list(map(self.prepared, references)))

    def score(self, hypotheses: Sequence[str], *references: Sequence[str]) -> float:
        """Returns the score of a corpus in percent. See `Metric.score`."""
        return self.corpus_score(hypotheses, *references).score

    def report(
        self, hypotheses: Sequence[str], *references: Sequence[str], names: tuple[str, str] = ("", "")
    ) -> list[str]:
        """Returns the line that sacreBLEU prints, with its signature. See `Metric.report`."""
        del names
        return [self.corpus_score(hypotheses, *references).format(signature=self.signature(len(references)))]

    def signature(self, num_references: int = 1) -> str:
        """Returns sacreBLEU's signature. See `Metric.signature`."""
        self._metric.num_refs = num_references
        return self._metric.get_signature().format()

    def resampled(self) -> SummedStatistics:
        """Returns the sums that sacreBLEU resamples. See `Metric.resampled`."""
        sums = summed(self._metric)
        return SummedStatistics(sums.name, lambda *texts: sums.of_lines(*map(self.prepared, texts)), sums.score_of_sums)


class Bleu(BySacrebleu):
    """BLEU with 13a tokens, 0 to 100 (Papineni et al. 2002, P02-1040)."""

    def __init__(self, lowercase: bool = False) -> None:
        super().__init__(BLEU(lowercase=lowercase))


class Chrf(BySacrebleu):
    """chrF2, 0 to 100 (Popović 2015, W15-3049)."""

    def __init__(self, lowercase: bool = False) -> None:
        super().__init__(CHRF(lowercase=lowercase))

    def line_scores(self, hypotheses: Sequence[str], *references: Sequence[str]) -> list[float]:
        """Returns chrF2 of each line. See `Metric.line_scores`."""
        check_lines(hypotheses, *references)
        return [self._metric.sentence_score(ours, theirs).score for ours, *theirs in zip(hypotheses, *references)]


class Ter(BySacrebleu):
    """Translation edit rate in percent, can exceed 100; ignores case (Snover et al. 2006, 2006.amta-papers.25)."""

    def __init__(self) -> None:
        super().__init__(TER())
