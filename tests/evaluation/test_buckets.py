"""Buckets of lengths and of word frequencies, on literal lines."""

from t2t_lite.evaluation.buckets import by_frequency, by_length


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


def test_words_are_matched_within_a_line_and_as_often_as_the_reference_has_them():
    frequencies = {"the": 5000, "dog": 4, "cat": 5, ".": 1000, "sees": 999}
    hypotheses = ["the the dog.", "the emu sees the cat."]
    references = ["the dog sees the emu.", "the cat sees the dog."]
    rows = {row["frequency"]: row for row in by_frequency(hypotheses, references, frequencies)}
    assert {name: (row["matches"], row["in_outputs"], row["in_references"]) for name, row in rows.items()} == {
        "0": (0, 1, 1),
        "1-4": (1, 1, 2),
        "5-99": (1, 1, 1),
        "100-999": (1, 1, 2),
        "1000+": (6, 6, 6),
    }
    assert rows["1-4"]["word_f1"] == 100 * 2 * 1 / 3 and rows["1000+"]["word_f1"] == 100
    assert {row["tokenizer"] for row in rows.values()} == {"13a"}
    assert by_frequency([""], [""], {})[0]["word_f1"] is None


def test_words_are_the_tokens_of_the_language():
    (unseen, seen, *_) = by_frequency(["我看书。"], ["他看书。"], {"看": 1, "书": 2, "。": 4}, "zh")
    assert (unseen["matches"], seen["matches"], seen["in_outputs"], seen["word_f1"]) == (0, 3, 3, 100)
    assert seen["tokenizer"] == "zh"
