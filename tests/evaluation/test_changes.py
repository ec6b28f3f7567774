"""What an evaluation says of lines: those that changed most, and scores by the lengths of sources."""

import pytest
from sacrebleu.metrics.chrf import CHRF

from t2t_lite.evaluation.comparison import most_changed
from t2t_lite.evaluation.evaluate import by_length
from t2t_lite.metric import Metric
from t2t_lite.registry import METRICS

REFERENCES = ["She sings a song.", "Two dogs play.", "The old man sleeps.", "It rains.", "No."]
FIRST = ["She sings a song.", "Two dogs plays.", "Old man.", "It rains.", "Yes."]
OTHER = ["She sings songs.", "Two dogs play.", "The old man sleeps.", "It rains.", "Nein."]


def test_lines_of_text_are_ranked_by_the_difference_of_their_chrf():
    found = most_changed("bleu", FIRST, OTHER, REFERENCES)
    systems = [
        [CHRF().sentence_score(output, [reference]).score for output, reference in zip(outputs, REFERENCES)]
        for outputs in (FIRST, OTHER)
    ]
    scores = {line: tuple(each[line - 1] for each in systems) for line in (1, 2, 3, 5)}
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
    assert [(change.line, change.first_score) for change in found] == [(3, 100.0), (2, 100.0)]
    assert [change.other_score for change in found] == [0.0, pytest.approx(100 * 2 / 3)]
    assert {change.metric for change in found} == {"parseval"}


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


def test_lines_are_grouped_by_the_number_of_source_words_and_long_ones_have_wide_buckets():
    inputs = ["a b", "a b c d e", "a b c d e f", " ".join("a" * 20)]
    hypotheses, references = ["x y", "x", "x y z", "x"], [["x", "x", "x y", "x x"]]
    rows = by_length(inputs, hypotheses, references, lambda ours, theirs: 10.0 * len(ours) + len(theirs[0]))
    assert [tuple(row[name] for name in ("words", "lines", "score", "length_ratio")) for row in rows] == [
        *(("1-5", 2, 22.0, 1.5), ("6-10", 1, 11.0, 1.5), ("16-20", 1, 11.0, 0.5))
    ]
    inputs = [" ".join(["a"] * length) for length in (0, 10, 11, 50, 51, 500)]
    rows = by_length(inputs, inputs, [inputs], lambda ours, theirs: None, has_words=False)
    assert [(row["words"], row["lines"]) for row in rows] == [("1-10", 2), ("11-20", 1), ("41-50", 1), ("51+", 2)]
    assert {row["length_ratio"] for row in rows} == {None}
