"""Scores by the lengths of sources, on literal lines."""

from t2t_lite.evaluation.evaluate import by_length


def test_lines_are_grouped_by_the_number_of_source_words():
    inputs = ["a b", "a b c d e", "a b c d e f", " ".join("a" * 20)]
    hypotheses, references = ["x y", "x", "x y z", "x"], [["x", "x", "x y", "x x"]]

    def count(ours, theirs):
        assert len(ours) == len(theirs[0])
        return float(len(ours))

    rows = by_length(inputs, hypotheses, references, count)
    assert [(row["words"], row["lines"], row["score"]) for row in rows] == [
        ("1-5", 2, 2.0),
        ("6-10", 1, 1.0),
        ("16-20", 1, 1.0),
    ]
    assert [row["length_ratio"] for row in rows] == [1.5, 1.5, 0.5]


def test_long_lines_have_wide_buckets_and_the_last_is_open():
    inputs = [" ".join(["a"] * length) for length in (0, 10, 11, 50, 51, 500)]
    rows = by_length(inputs, inputs, [inputs], lambda ours, theirs: None, has_words=False)
    assert [(row["words"], row["lines"]) for row in rows] == [("1-10", 2), ("11-20", 1), ("41-50", 1), ("51+", 2)]
    assert {row["length_ratio"] for row in rows} == {None}
