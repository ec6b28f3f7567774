"""The index of training records: hosts that read only their own rows, and resuming without reading."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data import pipeline
from t2t_lite.data.batching import HostShare
from t2t_lite.data.generation.generate import generate
from t2t_lite.data.manifest import read_manifest
from t2t_lite.data.pipeline import BLOCK, CYCLE, RecordIndex, epochs, index_path, read_index, write_index
from t2t_lite.data.problem import SIDES, Example, Problem

SIZES = {"batch_tokens": 300, "max_length": 14}
HOSTS = [HostShare(4, 0, 1), HostShare(4, 1, 3)]


class Numbered(Problem):
    """Pairs of different lengths, each with its own number; some have more tokens than max_length."""

    vocab_size = 60
    byte_fallback = False
    num_shards = 5

    def examples(self, split, files):
        for index in range(700 if split == "train" else 30):
            yield Example("ab " * (index % 7) + str(index), str(index) + " cd" * (index * index % 13))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("numbered")
    generate(Numbered(), data_dir, data_dir / "none", say=lambda line: None)
    return data_dir


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(pipeline, "WINDOW", 150)
    tf.random.set_seed(1)


def index_of(data_dir):
    return read_index(data_dir, read_manifest(data_dir, Numbered()))


def first_batches(data_dir, number, is_reversed=False, batch_by="both", **settings):
    problem = Numbered(is_reversed=is_reversed)
    dataset = epochs(problem, data_dir, seed=5, batch_by=batch_by, **SIZES, **settings).take(number)
    return list(dataset.as_numpy_iterator())


def stored(data_dir):
    paths = sorted(map(str, data_dir.glob("*-train-*-of-*")))
    return list(tf.data.TFRecordDataset(paths).as_numpy_iterator())


def test_the_index_locates_every_record_and_knows_its_lengths(data):
    index, records = index_of(data), stored(data)
    assert len(index) == len(records) == 700
    order = np.random.default_rng(3).permutation(700)[:300]
    assert index.read(order).tolist() == [records[number] for number in order]
    for number in (0, 139, 140, 699):
        feature = tf.train.Example.FromString(records[number]).features.feature
        assert index.lengths(np.array([number])).tolist() == [[len(feature[side].int64_list.value)] for side in SIDES]


@pytest.mark.parametrize("seed", range(6))
def test_blocks_are_in_the_order_of_tensorflows_interleave(seed):
    random = np.random.default_rng(seed)
    counts = random.choice([0, 1, 63, 64, 65, 128, 300], size=random.integers(1, 12))
    starts = np.concatenate([[0], np.cumsum(counts)])
    order = random.permutation(len(counts))
    datasets = tf.data.Dataset.from_tensor_slices(np.stack([starts[:-1], starts[1:]], 1)[order])
    expected = list(
        datasets.interleave(lambda ends: tf.data.Dataset.range(ends[0], ends[1]), CYCLE, BLOCK).as_numpy_iterator()
    )
    index = RecordIndex(np.zeros(starts[-1]), [None] * len(counts), counts)
    blocks = index.blocks(order)
    assert index.window(blocks, 0, len(expected)).tolist() == expected
    for start in (0, 5, 64, 200):
        assert index.window(blocks, start, 100).tolist() == expected[start : start + 100]


@pytest.mark.parametrize("is_reversed, batch_by", [(False, "both"), (True, "shapes")])
def test_hosts_together_have_the_rows_of_the_global_batches(data, is_reversed, batch_by):
    how = {"is_reversed": is_reversed, "batch_by": batch_by, "first_epoch": 1, "skip": 9}
    whole = first_batches(data, 40, **how)
    assert whole[-1]["epoch"] > 1
    for batch, *parts in zip(whole, *(first_batches(data, 40, host=host, **how) for host in HOSTS), strict=True):
        for side in SIDES:
            rows = np.concatenate([part[side] for part in parts])
            np.testing.assert_array_equal(rows, batch[side][: len(rows)])
            assert not batch[side][len(rows) :].any()  # rows that only fill a shape
        assert len(parts[0]["inputs"]) == -(-len(batch["inputs"]) // 4)
        for part in parts:
            assert part["rows"] == len(batch["inputs"]) and part["tokens"] == np.count_nonzero(batch["targets"])
            assert (part["epoch"], part["position"]) == (batch["epoch"], batch["position"])


def test_a_host_reads_nothing_but_its_own_rows(data, tmp_path):
    copy = shutil.copytree(data, tmp_path / "copy")
    host = HOSTS[0]
    number = len([batch for batch in first_batches(data, 60) if batch["epoch"] == 0])
    expected = first_batches(data, number, host=host)
    own = {tuple(map(bytes, pair)) for batch in expected for pair in zip(batch["inputs"], batch["targets"])}
    assert 700 / 4 * 0.6 < sum(len(batch["inputs"]) for batch in expected) < 700 / 4 * 1.4
    kept = 0
    for record in stored(data):
        feature = tf.train.Example.FromString(record).features.feature
        sides = [np.array(feature[side].int64_list.value, np.int32) for side in SIDES]
        if any(_padded(sides, batch) in own for batch in expected):
            kept += 1
        else:
            _overwrite(copy, record)
    assert kept < 350
    np.testing.assert_equal(first_batches(copy, number, host=host), expected)


def _padded(sides, batch):
    """A pair as rows of a batch, as bytes."""
    return tuple(bytes(np.pad(ids, (0, max(0, batch[side].shape[1] - len(ids))))) for side, ids in zip(SIDES, sides))


def _overwrite(data_dir, record):
    """Overwrites a record with zeros, which no Example begins with."""
    for name in read_manifest(data_dir, Numbered()).splits["train"]["shards"]:
        content = (data_dir / name).read_bytes()
        (data_dir / name).write_bytes(content.replace(record, bytes(len(record))))


def test_an_epoch_can_be_resumed_at_every_batch(data):
    host = HOSTS[1]
    whole = first_batches(data, 45, host=host)
    batches = sum(batch["epoch"] == 0 for batch in whole)  # in five windows
    for number in (batches // 5, batches // 5 + 1, batches - 1, batches):
        epoch, position = (int(whole[number][name]) for name in ("epoch", "position"))
        again = first_batches(data, 4, host=host, first_epoch=epoch, skip=position)
        np.testing.assert_equal(again, whole[number : number + 4])


def test_data_without_a_fitting_index_gives_the_same_batches(data, tmp_path):
    copy = shutil.copytree(data, tmp_path / "copy")
    path = index_path(copy, read_manifest(copy, Numbered()))
    rows = np.load(path)
    others = rows.copy()
    others["end"][5:] += 1
    for wrong in (others, rows[:3], np.zeros(705, int)):
        np.save(path, wrong)
        assert index_of(copy) is None
    for content in (b"no array", b""):
        path.write_bytes(content)
        assert index_of(copy) is None
    path.unlink()
    how = {"host": HOSTS[0], "first_epoch": 2, "skip": 7}
    np.testing.assert_equal(first_batches(copy, 5, **how), first_batches(data, 5, **how))
    generate(Numbered(), copy, copy / "none", say=lambda line: None)  # writes the index
    assert index_of(copy) is not None


def test_a_shard_without_records_is_skipped(data, tmp_path):
    copy = shutil.copytree(data, tmp_path / "copy")
    manifest = read_manifest(copy, Numbered())
    name = next(iter(manifest.splits["train"]["shards"])).replace("00000-of", "00002-and-a-half-of")
    (copy / name).write_bytes(b"")
    manifest.splits["train"]["shards"][name] = 0
    write_index(copy, manifest)
    index = read_index(copy, manifest)
    assert index.read(np.arange(700)).tolist() == stored(data)
