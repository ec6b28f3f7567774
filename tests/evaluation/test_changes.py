"""The lines that changed most."""

import pytest
from sacrebleu.metrics.chrf import CHRF

from t2t_lite.evaluation.comparison import most_changed
from t2t_lite.metric import Metric
from t2t_lite.registry import METRICS

REFERENCES = ["She sings a song.", "Two dogs play.", "The old man sleeps.", "It rains.", "No."]
FIRST = ["She sings a song.", "Two dogs plays.", "Old man.", "It rains.", "Yes."]
OTHER = ["She sings songs.", "Two dogs play.", "The old man sleeps.", "It rains.", "Nein."]


def chrf(output, *references):
    return CHRF().sentence_score(output, references).score


def test_lines_of_text_are_ranked_by_the_difference_of_their_chrf():
    found = most_changed("bleu", FIRST, OTHER, REFERENCES)
    scores = {
        line: (chrf(FIRST[line - 1], REFERENCES[line - 1]), chrf(OTHER[line - 1], REFERENCES[line - 1]))
        for line in (1, 2, 3, 5)
    }
    assert {change.line: (change.first_score, change.other_score) for change in found} == scores
    assert [change.line for change in found] == sorted(scores, key=lambda line: -abs(scores[line][0] - scores[line][1]))
    assert found[0].line == 3 and found[0][1:4] == (("The old man sleeps.",), "Old man.", "The old man sleeps.")
    assert found == most_changed(None, FIRST, OTHER, REFERENCES) and found[0].metric == "chrf"
    assert most_changed("bleu", FIRST, OTHER, REFERENCES, count=2) == found[:2]
    assert most_changed("bleu", FIRST, FIRST, REFERENCES) == []


@pytest.mark.parametrize("systems", [(FIRST, OTHER), (OTHER, FIRST)])
def test_both_systems_are_scored_by_the_same_metric(registered, systems):
    """Also if a metric scores the lines of one of them only."""

    class OfFirst(Metric):
        def line_scores(self, hypotheses, *references):
            return [1.0] * len(hypotheses) if hypotheses == FIRST else None

    registered(METRICS, "of_first", OfFirst, needs="text")
    assert most_changed("of_first", *systems, REFERENCES) == most_changed("chrf", *systems, REFERENCES)


def test_trees_are_ranked_by_f1():
    gold = ["(TOP (S (NP (DT a) (NN dog)) (VP (VBZ runs))))"] * 3
    wrong = "(TOP (S (XP (DT a) (NN dog)) (VP (VBZ runs))))"  # 2 of 3 brackets
    found = most_changed("parseval", gold, [gold[0], wrong, ""], gold)
    assert [(change.line, change.first_score, change.metric) for change in found] == [
        (3, 100.0, "parseval"),
        (2, 100.0, "parseval"),
    ]
    assert [change.other_score for change in found] == [0.0, pytest.approx(100 * 2 / 3)]


def test_a_metric_that_scores_lines_is_used(registered):
    class Length(Metric):
        """Length."""

        def score(self, hypotheses, references):
            return float(sum(map(len, hypotheses)))

        def line_scores(self, hypotheses, references):
            return [float(len(line)) for line in hypotheses]

    registered(METRICS, "length", Length)
    found = most_changed("length", ["aaaa", "b"], ["a", "bb"], ["a", "b"])
    assert [(change.line, change.first_score, change.other_score) for change in found] == [(1, 4.0, 1.0), (2, 1.0, 2.0)]
