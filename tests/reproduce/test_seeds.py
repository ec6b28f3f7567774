"""Means and intervals over seeds, against formulas written out; verdicts on the paper's observations."""

import math

import numpy as np
import pytest

from t2t_lite.reproduce.tables import (
    BETTER,
    FAILS,
    HOLDS,
    OBSERVATIONS,
    SAME,
    UNDECIDED,
    WORSE,
    Mean,
    Seeds,
    judged,
    verdict,
)


def test_intervals_are_students_with_the_pooled_spread():
    figures = {"a": [30.0, 30.6, 30.3], "b": [29.0, 29.1, 29.5]}
    seeds = Seeds(figures)
    spread = math.sqrt((np.var(figures["a"], ddof=1) + np.var(figures["b"], ddof=1)) / 2)
    quantile = 2.7764451  # of Student's t, 97.5%, 4 degrees of freedom, from a printed table
    assert seeds.mean("a").value == pytest.approx(30.3)
    assert seeds.mean("a").margin == pytest.approx(quantile * spread / math.sqrt(3), rel=1e-6)
    difference = seeds.difference("b", "a")
    assert difference.value == pytest.approx(-1.1)
    assert difference.margin == pytest.approx(quantile * spread * math.sqrt(2 / 3), rel=1e-6)


def test_intervals_contain_the_truth_as_often_as_they_say():
    random = np.random.default_rng(1)
    hits = []
    for _ in range(400):
        seeds = Seeds({row: random.normal(mean, 0.4, 3) for row, mean in (("a", 30), ("b", 29), ("c", 28))})
        difference = seeds.difference("a", "b")
        hits.append(difference.low <= 1.0 <= difference.high)
    assert 0.92 <= np.mean(hits) <= 0.98


@pytest.mark.parametrize(
    ("expected", "value", "margin", "higher_is_better", "result"),
    [
        (WORSE, -1.0, 0.5, True, HOLDS),
        (WORSE, -0.3, 0.5, True, UNDECIDED),
        (WORSE, 1.0, 0.5, True, FAILS),
        (WORSE, 1.0, 0.5, False, HOLDS),
        (BETTER, 1.0, 0.5, True, HOLDS),
        (BETTER, 1.0, 0.5, False, FAILS),
        (BETTER, -1.0, None, False, UNDECIDED),
        (SAME, 0.1, 0.2, True, HOLDS),
        (SAME, 0.1, 0.5, True, UNDECIDED),
        (SAME, 0.9, 0.4, True, FAILS),
        (SAME, 0.5, 0.3, True, UNDECIDED),  # more, but maybe less than 0.4
    ],
)
def test_verdicts(expected, value, margin, higher_is_better, result):
    assert verdict(expected, Mean(value, margin), higher_is_better, 0.4) == result


def test_the_papers_own_differences_make_its_observations_hold():
    from t2t_lite.reproduce.paper import PAPER_FIGURES

    rows = {row: figures for row, figures in PAPER_FIGURES.items() if figures.bleu}
    # The paper's figures as if measured with three seeds that hardly differ.
    bleu, perplexity = (
        Seeds({row: [getattr(figures, name) + error for error in (-0.01, 0, 0.01)] for row, figures in rows.items()})
        for name in ("bleu", "perplexity")
    )
    found = {each.text: [one[0] for one in judged(each, bleu, perplexity)] for each in OBSERVATIONS}
    exceptions = {text: verdicts for text, verdicts in found.items() if verdicts != [HOLDS, HOLDS]}
    # In table 3, eight layers have a better perplexity, but a BLEU that is 0.3 lower.
    assert exceptions == {"bigger is better: more layers are better": [FAILS, HOLDS]}
