"""What the paper observes in table 3, and whether the measured rows show it."""

from typing import NamedTuple

from t2t_lite.reproduce.seeds import Mean, Seeds

BETTER, WORSE, SAME = "better", "worse", "the same"
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
# Differences up to these count as "nearly identical", in BLEU and as a share of the perplexity: the paper's own between
# learned positions and sinusoids are 0.1 BLEU and none in perplexity.
SAME_BLEU, SAME_PERPLEXITY = 0.5, 0.03


class Observation(NamedTuple):
    """A statement of section 6.2 about two rows."""

    part: str  # of table 3
    text: str
    row: str  # an hparam set
    other: str  # the one it is compared with
    expected: str  # how `row` does, compared with `other`


_BASE = "transformer_base"
OBSERVATIONS = (
    Observation("A", "one head is worse than eight", "transformer_h1", _BASE, WORSE),
    Observation("A", "16 heads are as good as eight", "transformer_h16", _BASE, SAME),
    Observation("A", "quality drops off with too many heads (32)", "transformer_h32", _BASE, WORSE),
    Observation("B", "a smaller key size d_k hurts", "transformer_dk16", _BASE, WORSE),
    Observation("C", "bigger is better: fewer layers are worse", "transformer_l2", _BASE, WORSE),
    Observation("C", "bigger is better: more layers are better", "transformer_l8", _BASE, BETTER),
    Observation("C", "bigger is better: a smaller hidden size is worse", "transformer_hs256", _BASE, WORSE),
    Observation("C", "bigger is better: a larger hidden size is better", "transformer_hs1024", _BASE, BETTER),
    Observation("C", "bigger is better: half the filter is worse", "transformer_ff1024", _BASE, WORSE),
    Observation("C", "bigger is better: twice the filter is better", "transformer_ff4096", _BASE, BETTER),
    Observation("D", "dropout is very helpful: none is worse", "transformer_dr0", _BASE, WORSE),
    Observation("E", "learned positions are nearly identical", "transformer_learned_positions", _BASE, SAME),
)


def verdict(expected: str, difference: Mean, higher_is_better: bool, same: float) -> str:
    """Returns whether an observation holds by one figure: HOLDS, FAILS or UNDECIDED.

    Args:
      expected: how the row should do.
      difference: the row's figure minus the other's.
      higher_is_better: of this figure.
      same: the largest difference that counts as the same.
    """
    low, high = (difference.low, difference.high) if higher_is_better else (-difference.high, -difference.low)
    if expected == SAME:
        if -same <= low and high <= same:
            return HOLDS
        return FAILS if low > same or high < -same else UNDECIDED
    if expected == WORSE:
        low, high = -high, -low
    if low > 0:
        return HOLDS
    return FAILS if high < 0 else UNDECIDED


def paper_difference(observation: Observation, figure: str) -> float:
    """Returns the difference in the paper's table; `figure` is "bleu" or "perplexity"."""
    from t2t_lite.reproduce.paper_figures import PAPER_FIGURES

    row, other = (getattr(PAPER_FIGURES[name], figure) for name in (observation.row, observation.other))
    return row - other


def judged(observation: Observation, bleu: Seeds, perplexity: Seeds) -> tuple[tuple[str, Mean], tuple[str, Mean]]:
    """Returns (verdict, difference) by BLEU and by perplexity."""
    found = []
    same_perplexity = SAME_PERPLEXITY * perplexity.mean(observation.other).value
    for seeds, higher, same in ((bleu, True, SAME_BLEU), (perplexity, False, same_perplexity)):
        difference = seeds.difference(observation.row, observation.other)
        found.append((verdict(observation.expected, difference, higher, same), difference))
    return found[0], found[1]
