"""What a generation writes; an interrupted or killed one ends with the same data as an uninterrupted one."""

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


HELD_OUT = ("-00000-of-00001", ".inputs.txt", ".targets.txt")


def test_generate_writes_exactly_these_files(whole):
    held_out = [f"letters-{split}{end}" for split in ("dev", "test") for end in HELD_OUT]
    shards = [f"letters-train-0000{shard}-of-00003" for shard in range(3)]
    others = ["letters-train.index.npy", "manifest.letters.json", "vocab.letters.60.subwords"]
    assert names_in(whole) == held_out + shards + others


def test_the_shards_hold_all_pairs_shuffled_and_neighbours_are_separated(whole):
    for split in SPLITS:
        source = [tuple(pair) for pair in Letters().examples(split, {})]
        found = texts_of(Letters(), whole, split)
        assert sorted(found) == sorted(source) and found != source
    paths = [str(whole / Letters().shard_filename("train", shard)) for shard in range(3)]
    sizes = [sum(1 for _ in tf.data.TFRecordDataset(path)) for path in paths]
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
    path = whole / "vocab.letters.60.subwords"
    described = {"file": path.name, "sha256": file_sha256(path), "size": open_vocabulary(path).size}
    assert (manifest["problem"], manifest["sources"], manifest["vocabulary"]) == ("letters", {}, described)
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


class Stop(Exception):
    """The exception that interrupts a generation."""


# The vocabulary takes the first pass over train, the shards the second; text files take another pass over dev, test.
@pytest.mark.parametrize(
    "split, index, which_pass, error",
    [
        *(("train", 150, 1, Stop), ("train", 150, 2, Stop), ("dev", 0, 1, Stop), ("dev", 4, 1, Stop)),
        *(("dev", 4, 2, Stop), ("test", 4, 1, Stop), ("test", 4, 2, Stop), ("test", 4, 2, KeyboardInterrupt)),
    ],
)
def test_an_interrupted_run_resumes_and_ends_with_the_same_bytes(whole, tmp_path, split, index, which_pass, error):
    class Interrupted(Letters):
        data_name = "letters"
        passes = 0

        def visit(self, at_split, at_index):
            self.passes += (at_split, at_index) == (split, index)
            if (at_split, at_index) == (split, index) and self.passes == which_pass:
                raise error

    with pytest.raises(error):
        generate(Interrupted(), tmp_path, tmp_path / "none", say=silent)
    with pytest.raises(UserError, match="t2t-lite-datagen --problem=letters"):
        check_data(tmp_path, Letters())
    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    assert contents_of(tmp_path) == contents_of(whole)


@pytest.mark.parametrize(
    "left_over",
    [
        "letters-train-00002-of-00003.incomplete",
        "letters-train.0123456789abcdef.work/chunk-000000.arrow",
        "manifest.letters.json.01234567.incomplete",
    ],
)
@pytest.mark.parametrize("lost", [["letters-train-00002-of-00003"], []])
def test_leftovers_of_a_run_killed_between_two_files_are_removed(whole, tmp_path, left_over, lost):
    for name, content in contents_of(whole).items():
        if name not in [*lost, "manifest.letters.json"]:
            (tmp_path / name).write_bytes(content)
    (tmp_path / left_over).parent.mkdir(exist_ok=True)
    (tmp_path / left_over).write_bytes(b"half of something")
    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    assert contents_of(tmp_path) == contents_of(whole)


@pytest.mark.parametrize("finished", [True, False])
def test_a_changed_vocabulary_size_never_keeps_shards_of_the_old_vocabulary(tmp_path, finished):
    class Letters45(Letters):
        data_name = "letters"
        vocab_size = 45

    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    if not finished:  # the files that a run leaves that was interrupted at the test split
        for name in names_in(tmp_path):
            if name.startswith(("manifest", "letters-test")):
                (tmp_path / name).unlink()
    try:
        generate(Letters45(), tmp_path, tmp_path / "none", say=silent)
    except UserError as error:
        assert str(tmp_path) in str(error)
        return
    for split in SPLITS:
        assert sorted(texts_of(Letters45(), tmp_path, split)) == sorted(Letters().examples(split, {}))
