"""Confidence intervals for scores by bootstrap resampling, and paired tests of the difference between systems.

Both resample the lines of a corpus (Koehn 2004, W04-3250) like sacreBLEU, with its default seed, so that results equal
those of the command `sacrebleu` with --confidence, --paired-bs and --paired-ar. There are two exceptions: a system is
never significantly different from itself, and randomisation also counts samples with exactly the observed difference.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.utils import sum_of_lists

from t2t_lite.errors import UserError
from t2t_lite.metric import SummedStatistics, check_lines, check_references, make_metric
from t2t_lite.scoring.text_metrics import summed

BOOTSTRAP, RANDOMISATION = "bootstrap", "randomisation"
# The paired tests, with sacreBLEU's numbers of samples.
TESTS = {BOOTSTRAP: 1000, RANDOMISATION: 10_000}
# The meaning of the p-values, for reports.
EXPLANATIONS = {
    BOOTSTRAP: f"paired bootstrap resampling ({TESTS[BOOTSTRAP]:,} samples, Koehn 2004) by sacreBLEU's formula, which "
    "is in effect one-sided: one in ten pairs of equal systems has p < 0.05",
    RANDOMISATION: f"paired approximate randomisation ({TESTS[RANDOMISATION]:,} samples, Riezler and Maxwell 2005), "
    "two-sided",
}
_SEED = 12345
_CHUNK = 2**24  # numbers per chunk of samples; limits the memory
_ROUNDING = 1e-9  # tolerance when comparing differences between scores


class SystemScore(NamedTuple):
    """A system's score with its 95% confidence interval, and p-values of its difference from the first system.

    A p-value is the probability of a difference this large by chance; None: for the first system, or not computed. An
    interval that is not known is NaN.
    """

    name: str
    score: float
    low: float = math.nan
    high: float = math.nan
    p_bootstrap: float | None = None
    p_randomisation: float | None = None


def interval(metric: str, hypotheses: Sequence[str], *references: Sequence[str], **options: Any) -> SystemScore | None:
    """Returns the score by a metric, given by name, with its confidence interval; None if it cannot be resampled.

    `options` go to the metric's constructor.
    """
    if make_metric(metric, **options).resampled() is None:
        check_references(metric, len(references))
        return None
    return compare(metric, {"": hypotheses}, *references, **options)[0]


def compare(
    metric: str,
    systems: Mapping[str, Sequence[str]],
    *references: Sequence[str],
    tests: Collection[str] = (BOOTSTRAP,),
    num_samples: int | None = None,
    **options: object,
) -> list[SystemScore]:
    """Compares systems, given as hypotheses by name, with the first one. For `options` see `interval`.

    The p-value is 1 for a system whose lines all have the same statistics as those of the first system.

    Args:
      tests: "bootstrap", paired bootstrap resampling (Koehn 2004), "randomisation", paired approximate randomisation
        (Riezler and Maxwell 2005, W05-0908), or both.
      num_samples: number of samples of each test; None: 1,000 for bootstrap, 10,000 for randomisation. Confidence
        intervals use the same number with bootstrap, and 1,000 with randomisation alone.

    Raises:
      UserError: if there is no such test, no system, or the metric cannot be resampled.
    """
    for test in tests:
        if test not in TESTS:
            raise UserError(f"`test={test}` is unknown; use {' or '.join(TESTS)}", status=2)
    if not systems:
        raise UserError("`systems` is empty; pass at least one")
    check_references(metric, len(references))
    if (resampled := make_metric(metric, **options).resampled()) is None:
        raise UserError(
            f"metric '{metric}' cannot be resampled for a paired test, because it has no sums over lines; use another"
        )
    of_interval = num_samples if num_samples and BOOTSTRAP in tests else TESTS[BOOTSTRAP]
    drawn = [_System(summed(resampled), lines, references, of_interval) for lines in systems.values()]
    scores = []
    for name, system in zip(systems, drawn):
        samples = np.sort(system.samples)
        outside = len(samples) // 40  # 2.5% on each side
        low, high = float(samples[outside]), float(samples[len(samples) - outside - 1])
        others = tests if system is not drawn[0] else ()
        p_values = {f"p_{test}": _p_value(drawn[0], system, test, num_samples or TESTS[test]) for test in others}
        scores.append(SystemScore(name, system.score, low, high, **p_values))
    return scores


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns the p-values of several tests, corrected for their number, in the same order (Holm 1979).

    The probability that any corrected p-value falls below a level by chance is at most that level.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


class _System:
    """The statistics of a system's lines, and the scores of bootstrap samples of the lines.

    `lines` are the numbers of each line; their sums determine the score. `samples` are the scores of the samples.
    """

    def __init__(
        self, metric: SummedStatistics, hypotheses: Sequence[str], references: Sequence[Sequence[str]], num_samples: int
    ) -> None:
        check_lines(hypotheses, *references)
        self._metric = metric
        self.lines = [list(numbers) for numbers in metric.of_lines(hypotheses, *references)]
        self.score = float(metric.score_of_sums(sum_of_lists(self.lines)))
        # The same samples as in sacrebleu.significance, but not all in memory at once.
        numbers = np.array(self.lines, dtype="float32")
        generator = np.random.default_rng(_SEED)
        size = len(self.lines)
        self.samples = self.scores(numbers[generator.choice(size, size=size)].sum(0) for _ in range(num_samples))

    def scores(self, sums: Iterable[np.ndarray]) -> np.ndarray:
        return np.array([self._metric.score_of_sums(list(each)) for each in sums])


def _p_value(first: _System, other: _System, test: str, num_samples: int) -> float:
    if first.lines == other.lines:
        return 1.0  # sacreBLEU's bootstrap test would count no sample as extreme and return 0.001
    difference = abs(first.score - other.score)
    if test == BOOTSTRAP:
        # How often the difference in a sample deviates from its mean by more than the observed difference.
        of_samples = np.abs(other.samples - first.samples)
        return (np.sum(of_samples - of_samples.mean() > difference).item() + 1) / (num_samples + 1)
    # How often the difference is at least as large after exchanging the systems' outputs on random lines.
    ours, theirs = np.array(first.lines, dtype="float64"), np.array(other.lines, dtype="float64")
    generator, missing, parts = np.random.default_rng(_SEED), num_samples, []
    while missing > 0:
        # With multiples of 32, the random numbers equal those of sacreBLEU, which draws them all at once.
        rows = min(missing, max(32, _CHUNK // len(ours) // 32 * 32))
        parts.append(generator.integers(2, size=(rows, len(ours)), dtype=bool) @ (ours - theirs))
        missing -= rows
    kept = np.concatenate(parts)
    exchanged = np.abs(first.scores(theirs.sum(0) + kept) - first.scores(ours.sum(0) - kept))
    # Equal differences count, unlike in sacreBLEU: if few lines differ, many exchanges give the observed difference.
    return (np.sum(exchanged >= difference - _ROUNDING) + 1) / (num_samples + 1)
