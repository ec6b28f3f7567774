import pytest
import tensorflow as tf

from t2t_lite.data.generation.shards import Statistics, encode_pairs
from t2t_lite.data.problem import Example, Problem, Unusable
from t2t_lite.data.vocab import open_vocabulary, train_vocabulary

PAIRS = [Example("one two", "eins zwei"), Example("", "leer"), Example("three", "drei"), Example("x", Unusable("bad"))]


def vocabularies_in(folder):
    train_vocabulary(["one two three", "eins zwei drei"], 60, folder / "v")
    return [open_vocabulary(folder / "v")] * 2


@pytest.mark.heavy
def test_records_equal_tensorflows_serialisation_byte_for_byte(tmp_path):
    vocabularies = vocabularies_in(tmp_path)
    # Large ids take more bytes each, and the lengths of long texts take more bytes, too.
    pairs = [*PAIRS, *(Example("one " * count, "drei" * count) for count in range(1, 400, 7))]
    records, _ = encode_pairs(Problem(), "train", pairs, vocabularies)
    kept = [pairs[0], pairs[2], *pairs[4:]]
    expected = []
    for pair in kept:
        feature = {
            name: tf.train.Feature(int64_list=tf.train.Int64List(value=vocabulary.encode(tf.constant([text])).values))
            for name, vocabulary, text in zip(("inputs", "targets"), vocabularies, pair)
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        expected.append(example.SerializeToString(deterministic=True))
    assert records == expected


def test_statistics_count_dropped_pairs_and_all_lengths(tmp_path):
    vocabularies = vocabularies_in(tmp_path)
    records, statistics = encode_pairs(Problem(), "train", PAIRS, vocabularies)
    assert dict(statistics.dropped) == {"an empty side": 1, "bad": 1}
    assert (statistics.examples, statistics.pairs, len(records)) == (2, 4, 2)
    lengths = sorted(len(vocabularies[0].encode(tf.constant([text]))[0]) for text in ("one two", "three"))
    assert sorted(statistics.lengths["inputs"].elements()) == lengths


def test_statistics_add_up_and_survive_json(tmp_path):
    vocabularies = vocabularies_in(tmp_path)
    parts = [encode_pairs(Problem(), "train", pairs, vocabularies)[1] for pairs in (PAIRS[:1], PAIRS[1:])]
    whole = encode_pairs(Problem(), "train", PAIRS, vocabularies)[1]
    total = Statistics()
    for part in parts:
        total.add(Statistics.from_json(part.as_json()))
    assert total == whole


def test_without_usable_pairs_there_are_no_records(tmp_path):
    records, statistics = encode_pairs(Problem(), "train", PAIRS[1:2], vocabularies_in(tmp_path))
    assert records == [] and statistics.examples == 0
