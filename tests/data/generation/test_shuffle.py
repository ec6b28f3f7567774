"""Records in random shards in random order, from chunk files."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.generation.shards import Plan, Statistics, statistics_of_chunk, write_chunk, write_shard

pytestmark = pytest.mark.slow

COUNT = 20_000


def write_all(folder, plan, records):
    """Writes all chunks and all shards of a plan; returns the records of each shard."""
    folder.mkdir(exist_ok=True)
    chunks = [records[i : i + plan.chunk_pairs] for i in range(0, len(records), plan.chunk_pairs)]
    for number, chunk in enumerate(chunks):
        write_chunk(plan, folder, number, chunk, Statistics())
    shards = []
    for shard in range(plan.num_shards):
        write_shard(plan, folder, len(chunks), shard, folder / f"shard{shard}")
        shards.append([record.numpy() for record in tf.data.TFRecordDataset(str(folder / f"shard{shard}"))])
    return shards


@pytest.fixture(scope="module", params=[1, 3], ids=["one bucket a shard", "three buckets a shard"])
def shards(request, tmp_path_factory):
    plan = Plan("train", num_shards=5, buckets_per_shard=request.param, chunk_pairs=3000)
    return write_all(tmp_path_factory.mktemp("work") / "w", plan, [str(i).encode() for i in range(COUNT)])


def test_every_record_is_in_exactly_one_shard(shards):
    assert sorted(int(record) for shard in shards for record in shard) == list(range(COUNT))


def test_neighbours_go_to_different_shards(shards):
    where = np.empty(COUNT, int)
    for number, shard in enumerate(shards):
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
    plans = [
        Plan("train", 2, 2, 300, "a"),
        Plan("dev", 2, 2, 300, "a"),
        Plan("train", 3, 2, 300, "a"),
        Plan("train", 2, 3, 300, "a"),
        Plan("train", 2, 2, 301, "a"),
        Plan("train", 2, 2, 300, "b"),
    ]
    assert len({plan.digest for plan in plans}) == len(plans)
    assert Plan("train", 2, 2, 300, "a").digest == plans[0].digest


def test_a_chunk_keeps_its_statistics(tmp_path):
    statistics = Statistics(collections.Counter({"an empty side": 3}))
    statistics.lengths["inputs"].update({5: 2, 7: 1})
    statistics.lengths["targets"].update({4: 3})
    write_chunk(Plan("train", 2, 1, 10), tmp_path, 4, [b"x", b"y", b"z"], statistics)
    kept = statistics_of_chunk(tmp_path, 4)
    assert kept == statistics and (kept.examples, kept.pairs) == (3, 6)


def test_empty_shards_and_records_of_any_bytes_are_allowed(tmp_path):
    records = [b"", b"\0\xff" * 1000, b"\n"]
    shards = write_all(tmp_path / "w", Plan("train", 40, 1, 2), records)
    assert sorted(record for shard in shards for record in shard) == sorted(records)
    assert [] in shards
