"""Pairs become records, and these go to random shards in random order, by way of chunk files."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.generation import shards
from t2t_lite.data.generation.shards import Plan, Statistics, encode_pairs, write_chunk
from t2t_lite.data.problem import Example, Problem, Unusable
from t2t_lite.data.vocab import open_vocabulary, train_vocabulary

COUNT = 20_000


def write_all(folder, plan, records):
    """Writes all chunks and all shards of a plan; returns the records of each shard."""
    folder.mkdir(exist_ok=True)
    chunks = [records[i : i + plan.chunk_pairs] for i in range(0, len(records), plan.chunk_pairs)]
    for number, chunk in enumerate(chunks):
        write_chunk(plan, folder, number, chunk, Statistics())
    written = []
    for shard in range(plan.num_shards):
        shards.write_shard(plan, folder, len(chunks), shard, folder / f"shard{shard}")
        written.append([record.numpy() for record in tf.data.TFRecordDataset(str(folder / f"shard{shard}"))])
    return written


@pytest.fixture(scope="module", params=[1, 3], ids=["one bucket a shard", "three buckets a shard"])
def written(request, tmp_path_factory):
    plan = Plan("train", num_shards=5, buckets_per_shard=request.param, chunk_pairs=3000)
    return write_all(tmp_path_factory.mktemp("work") / "w", plan, [str(i).encode() for i in range(COUNT)])


def test_every_record_is_in_one_shard_and_neighbours_go_to_different_ones(written):
    assert sorted(int(record) for shard in written for record in shard) == list(range(COUNT))
    where = np.empty(COUNT, int)
    for number, shard in enumerate(written):
        where[[int(record) for record in shard]] = number
    assert abs(np.mean(where[1:] == where[:-1]) - 1 / 5) < 0.02
    counts = collections.Counter(zip(where[:-1].tolist(), where[1:].tolist()))
    assert len(counts) == 25 and min(counts.values()) > COUNT / 25 * 0.8


def test_the_same_plan_gives_the_same_bytes_and_another_split_another_order(tmp_path):
    records = [str(i).encode() for i in range(1000)]
    made = {
        name: write_all(tmp_path / name, Plan(split, 2, 2, 300), records)
        for name, split in (("a", "train"), ("b", "train"), ("c", "dev"))
    }
    assert made["a"] == made["b"] != made["c"]
    for shard in ("shard0", "shard1"):
        assert (tmp_path / "a" / shard).read_bytes() == (tmp_path / "b" / shard).read_bytes()


def test_plans_that_differ_in_any_field_have_different_digests():
    plan = Plan("train", 2, 2, 300, "a")
    changes = ({"split": "dev"}, {"num_shards": 3}, {"buckets_per_shard": 3}, {"chunk_pairs": 301}, {"made_of": "b"})
    others = {dataclasses.replace(plan, **change).digest for change in changes}
    assert len(others | {plan.digest}) == 6 and dataclasses.replace(plan).digest == plan.digest


def test_a_chunk_keeps_its_statistics(tmp_path):
    statistics = Statistics(collections.Counter({"an empty side": 3}))
    statistics.lengths["inputs"].update({5: 2, 7: 1})
    statistics.lengths["targets"].update({4: 3})
    write_chunk(Plan("train", 2, 1, 10), tmp_path, 4, [b"x", b"y", b"z"], statistics)
    kept = shards.statistics_of_chunk(tmp_path, 4)
    assert kept == statistics and (kept.examples, kept.pairs) == (3, 6)


def test_empty_shards_and_records_of_any_bytes_are_allowed(tmp_path):
    records = [b"", b"\0\xff" * 1000, b"\n"]
    written = write_all(tmp_path / "w", Plan("train", 40, 1, 2), records)
    assert sorted(record for shard in written for record in shard) == sorted(records)
    assert [] in written


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


def test_statistics_count_dropped_pairs_and_all_lengths_add_up_and_survive_json(tmp_path):
    vocabularies = vocabularies_in(tmp_path)
    records, whole = encode_pairs(Problem(), "train", PAIRS, vocabularies)
    assert dict(whole.dropped) == {"an empty side": 1, "bad": 1}
    assert (whole.examples, whole.pairs, len(records)) == (2, 4, 2)
    lengths = sorted(len(vocabularies[0].encode(tf.constant([text]))[0]) for text in ("one two", "three"))
    assert sorted(whole.lengths["inputs"].elements()) == lengths
    total = Statistics()
    for pairs in (PAIRS[:1], PAIRS[1:]):
        total.add(Statistics.from_json(encode_pairs(Problem(), "train", pairs, vocabularies)[1].as_json()))
    assert total == whole
    records, statistics = encode_pairs(Problem(), "train", PAIRS[1:2], vocabularies)
    assert records == [] and statistics.examples == 0
