import collections
import itertools
import json

import pytest
import tensorflow as tf
from support.letters import COUNTS, Letters, contents_of, names_in, records_of, silent, texts_of

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.manifest import check_data
from t2t_lite.data.problem import SPLITS, Example
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The data of Letters, generated without interruption."""
    data_dir = tmp_path_factory.mktemp("whole")
    generate(Letters(), data_dir, data_dir / "none", say=silent)
    return data_dir


def test_generate_writes_exactly_these_files(whole):
    assert names_in(whole) == [
        "letters-dev-00000-of-00001",
        "letters-dev.inputs.txt",
        "letters-dev.targets.txt",
        "letters-test-00000-of-00001",
        "letters-test.inputs.txt",
        "letters-test.targets.txt",
        "letters-train-00000-of-00003",
        "letters-train-00001-of-00003",
        "letters-train-00002-of-00003",
        "letters-train.index.npy",
        "manifest.letters.json",
        "vocab.letters.60.subwords",
    ]


@pytest.mark.parametrize("split", SPLITS)
def test_the_shards_hold_all_pairs_shuffled(whole, split):
    source = [tuple(pair) for pair in Letters().examples(split, {})]
    found = texts_of(Letters(), whole, split)
    assert collections.Counter(found) == collections.Counter(source)
    assert found != source


def test_pairs_are_spread_over_the_shards_and_neighbours_are_separated(whole):
    sizes = [
        sum(1 for _ in tf.data.TFRecordDataset(str(whole / Letters().shard_filename("train", shard))))
        for shard in range(3)
    ]
    assert sum(sizes) == 300 and min(sizes) > 60
    numbers = [int(targets.split()[0]) for _, targets in texts_of(Letters(), whole, "train")]
    neighbours = sum(abs(first - second) == 1 for first, second in itertools.pairwise(numbers))
    assert neighbours < 15


def test_dev_and_test_are_also_written_as_text_in_source_order(whole):
    for split in ("dev", "test"):
        for side, lines in zip(("inputs", "targets"), zip(*Letters().examples(split, {}))):
            text = (whole / f"letters-{split}.{side}.txt").read_text(encoding="utf-8")
            assert text == "".join(line + "\n" for line in lines)


def test_the_manifest_describes_the_data(whole):
    manifest = json.loads((whole / "manifest.letters.json").read_text(encoding="utf-8"))
    vocabulary = open_vocabulary(whole / "vocab.letters.60.subwords")
    assert manifest["problem"] == "letters"
    assert manifest["sources"] == {}
    assert manifest["vocabulary"] == {
        "file": "vocab.letters.60.subwords",
        "sha256": file_sha256(vocabulary.path),
        "size": vocabulary.size,
    }
    assert sorted(manifest["splits"]) == ["dev", "test", "train"]
    for split, described in manifest["splits"].items():
        records = records_of(Letters(), whole, split)
        assert described["examples"] == len(records) == COUNTS[split]
        assert described["shards"] == {
            name: (whole / name).stat().st_size for name in names_in(whole) if name.startswith(f"letters-{split}-")
        }
        for side in ("inputs", "targets"):
            lengths = collections.Counter(str(len(record[side])) for record in records)
            assert described["lengths"][side] == lengths


def test_a_second_run_changes_nothing_and_reports_it(whole, snapshot):
    before = snapshot(whole)
    said = []
    generate(Letters(), whole, whole / "none", say=said.append)
    assert snapshot(whole) == before
    assert said == [f"letters: already in {whole}, nothing to do"]


def test_two_problems_share_a_data_directory(whole, tmp_path):
    class Numerals(Letters):
        pass

    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    generate(Numerals(), tmp_path, tmp_path / "none", say=silent)
    assert {name: data for name, data in contents_of(tmp_path).items() if "letters" in name} == contents_of(whole)
    assert check_data(tmp_path, Numerals()).problem == "numerals"


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_without_pairs_is_an_error_that_names_it(tmp_path, split):
    class Hollow(Letters):
        def examples(self, at_split, files):
            return iter(()) if at_split == split else super().examples(at_split, files)

    with pytest.raises(UserError, match=f"'hollow' has no {split} examples"):
        generate(Hollow(), tmp_path, tmp_path / "none", say=silent)
    with pytest.raises(UserError, match="t2t-lite-datagen --problem=hollow"):
        check_data(tmp_path, Hollow())


def test_a_text_that_contains_a_line_end_is_refused(tmp_path):
    class Broken(Letters):
        def examples(self, split, files):
            for inputs, targets in super().examples(split, files):
                yield Example(inputs + "\nmore", targets)

    with pytest.raises(UserError, match="line"):
        generate(Broken(), tmp_path, tmp_path / "none", say=silent)
