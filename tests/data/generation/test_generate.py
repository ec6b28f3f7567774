import collections
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.manifest import check_data, read_manifest
from t2t_lite.data.problem import SPLITS, Example, Problem, Source, get_problem
from t2t_lite.data.text_files import read_parallel
from t2t_lite.data.vocab import EOS_ID, open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of

COUNTS = {"train": 300, "dev": 7, "test": 5}


class Letters(Problem):
    """Made-up pairs; `visit` is called with the split and the index of each pair that is handed out."""

    vocab_size = 60
    byte_fallback = False
    num_shards = 3

    def visit(self, split, index):
        pass

    def examples(self, split, files):
        for index in range(COUNTS[split]):
            self.visit(split, index)
            word = "".join(chr(97 + (index * 31 + i * i) % 26) for i in range(1 + index % 9))
            yield Example(f"{word} {split} {index}", f"{index} {word[::-1]} {word}")


def silent(line):
    pass


def names_in(directory):
    return sorted(path.name for path in Path(directory).iterdir())


def contents_of(directory):
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


def records_of(problem, data_dir, split):
    """The features of every record of a split, in the order of the files, each a dict of lists."""
    paths = [str(data_dir / problem.shard_filename(split, i)) for i in range(problem.shards_of(split))]
    return [
        {
            name: list(feature.int64_list.value)
            for name, feature in tf.train.Example.FromString(record.numpy()).features.feature.items()
        }
        for record in tf.data.TFRecordDataset(paths)
    ]


def texts_of(problem, data_dir, split):
    """The pairs of a split in the order of the files."""
    records = records_of(problem, data_dir, split)
    sides = [
        open_vocabulary(data_dir / name).decode(
            tf.ragged.constant([record[side] for record in records], tf.int32).to_tensor()
        )
        for side, name in zip(("inputs", "targets"), problem.vocab_filenames)
    ]
    return list(zip(*sides))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The data of Letters, generated without disturbance."""
    data_dir = tmp_path_factory.mktemp("whole")
    generate(Letters(), data_dir, data_dir / "none", say=silent)
    return data_dir


def test_the_files_are_these_and_no_others(whole):
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
        "manifest.letters.json",
        "vocab.letters.60.subwords",
    ]


@pytest.mark.parametrize("split", SPLITS)
def test_the_shards_hold_exactly_the_pairs_in_another_order(whole, split):
    source = [tuple(pair) for pair in Letters().examples(split, {})]
    found = texts_of(Letters(), whole, split)
    assert collections.Counter(found) == collections.Counter(source)
    assert found != source


def test_records_have_inputs_and_targets_that_end_with_the_end_symbol(whole):
    for record in records_of(Letters(), whole, "train"):
        assert sorted(record) == ["inputs", "targets"]
        for ids in record.values():
            assert ids[-1] == EOS_ID and ids.count(EOS_ID) == 1 and min(ids) > 0


def test_pairs_are_spread_over_the_shards_and_neighbours_are_parted(whole):
    sizes = [
        sum(1 for _ in tf.data.TFRecordDataset(str(whole / Letters().shard_filename("train", shard))))
        for shard in range(3)
    ]
    assert sum(sizes) == 300 and min(sizes) > 60
    numbers = [int(targets.split()[0]) for _, targets in texts_of(Letters(), whole, "train")]
    neighbours = sum(abs(first - second) == 1 for first, second in itertools.pairwise(numbers))
    assert neighbours < 15


def test_dev_and_test_are_also_there_as_text_in_the_order_of_the_source(whole):
    for split in ("dev", "test"):
        for side, lines in zip(("inputs", "targets"), zip(*Letters().examples(split, {}))):
            text = (whole / f"letters-{split}.{side}.txt").read_text(encoding="utf-8")
            assert text == "".join(line + "\n" for line in lines)


def test_the_manifest_says_what_is_there(whole):
    manifest = json.loads((whole / "manifest.letters.json").read_text(encoding="utf-8"))
    vocabulary = open_vocabulary(whole / "vocab.letters.60.subwords")
    assert manifest["problem"] == "letters"
    assert manifest["sources"] == {}
    assert manifest["vocabulary"] == {
        "file": "vocab.letters.60.subwords",
        "sha256": sha256_of(vocabulary.path),
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


def test_generate_returns_the_manifest_that_it_wrote(whole):
    assert read_manifest(whole, Letters()) == check_data(whole, Letters())
    assert generate(Letters(), whole, whole / "none", say=silent) == read_manifest(whole, Letters())


def test_a_second_run_changes_no_file_and_says_so(whole, snapshot):
    before = snapshot(whole)
    said = []
    generate(Letters(), whole, whole / "none", say=said.append)
    assert snapshot(whole) == before
    assert said == [f"letters: already in {whole}, nothing to do"]


def test_generating_anew_gives_the_same_bytes(whole, tmp_path):
    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    assert contents_of(tmp_path) == contents_of(whole)


def test_two_problems_share_a_data_directory(whole, tmp_path):
    class Numerals(Letters):
        pass

    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    generate(Numerals(), tmp_path, tmp_path / "none", say=silent)
    assert {name: data for name, data in contents_of(tmp_path).items() if "letters" in name} == contents_of(whole)
    assert check_data(tmp_path, Numerals()).problem == "numerals"


class Stop(Exception):
    """What interrupts a generation."""


# The vocabulary takes the first pass over train, the shards the second; text files take another pass over dev and test.
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
@pytest.mark.parametrize(
    "split, index, which_pass",
    [("train", 150, 1), ("train", 150, 2), ("dev", 0, 1), ("dev", 4, 1), ("dev", 4, 2), ("test", 4, 1), ("test", 4, 2)],
)
def test_an_interrupted_run_goes_on_and_ends_as_an_undisturbed_one(whole, tmp_path, split, index, which_pass, error):
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


def test_a_finished_split_is_kept_by_the_run_that_goes_on(tmp_path, snapshot):
    class Interrupted(Letters):
        data_name = "letters"

        def visit(self, split, index):
            if split == "dev":
                raise Stop

    with pytest.raises(Stop):
        generate(Interrupted(), tmp_path, tmp_path / "none", say=silent)
    before = {name: state for name, state in snapshot(tmp_path).items() if "train" in name or "vocab" in name}
    assert len(before) == 4
    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    assert {name: snapshot(tmp_path)[name] for name in before} == before


KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, {tests!r})
from test_generate import Letters, generate

class Killed(Letters):
    data_name = "letters"
    passes = 0

    def visit(self, split, index):
        self.passes += (split, index) == ("train", 150)
        if {where!r} == "visit" and self.passes == 2:
            os.kill(os.getpid(), signal.SIGKILL)

def say(line):
    if {where!r} == "said" and " test: " in line:
        os.kill(os.getpid(), signal.SIGKILL)

generate(Killed(), pathlib.Path({data_dir!r}), pathlib.Path("none"), say=say)
"""


@pytest.mark.parametrize("where", ["visit", pytest.param("said", marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_and_ends_as_an_undisturbed_one(whole, tmp_path, where):
    code = KILLED.format(tests=str(Path(__file__).parent), where=where, data_dir=str(tmp_path))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert result.returncode == -signal.SIGKILL, result.stderr
    if where == "visit":
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
def test_what_a_kill_between_two_files_leaves_is_cleared_away(whole, tmp_path, left_over, lost):
    for name, content in contents_of(whole).items():
        if name not in [*lost, "manifest.letters.json"]:
            (tmp_path / name).write_bytes(content)
    (tmp_path / left_over).parent.mkdir(exist_ok=True)
    (tmp_path / left_over).write_bytes(b"half of something")
    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    assert contents_of(tmp_path) == contents_of(whole)


@pytest.mark.parametrize(
    "lost", ["letters-train-00001-of-00003", "letters-dev.inputs.txt", "vocab.letters.60.subwords"]
)
def test_a_lost_file_is_made_again(whole, tmp_path, lost):
    for name, content in contents_of(whole).items():
        if name != lost:
            (tmp_path / name).write_bytes(content)
    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    assert contents_of(tmp_path) == contents_of(whole)


@pytest.mark.parametrize("finished", [True, False])
def test_another_vocabulary_size_never_leaves_shards_of_the_old_vocabulary(tmp_path, finished):
    class Letters45(Letters):
        data_name = "letters"
        vocab_size = 45

    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    if not finished:  # what a run that was interrupted at the test split leaves
        for name in names_in(tmp_path):
            if name.startswith(("manifest", "letters-test")):
                (tmp_path / name).unlink()
    try:
        generate(Letters45(), tmp_path, tmp_path / "none", say=silent)
    except UserError as error:
        assert str(tmp_path) in str(error)
        return
    for split in SPLITS:
        source = collections.Counter(tuple(pair) for pair in Letters().examples(split, {}))
        assert collections.Counter(texts_of(Letters45(), tmp_path, split)) == source


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_without_pairs_is_an_error_that_names_it(tmp_path, split):
    class Hollow(Letters):
        def examples(self, at_split, files):
            return iter(()) if at_split == split else super().examples(at_split, files)

    with pytest.raises(UserError, match=f"'hollow' has no {split} examples"):
        generate(Hollow(), tmp_path, tmp_path / "none", say=silent)
    with pytest.raises(UserError, match="t2t-lite-datagen --problem=hollow"):
        check_data(tmp_path, Hollow())


def test_more_shards_than_pairs_are_fine(tmp_path):
    class Scattered(Letters):
        num_shards = 12

        def examples(self, split, files):
            return itertools.islice(super().examples(split, files), 8)

    generate(Scattered(), tmp_path, tmp_path / "none", say=silent)
    assert sorted(texts_of(Scattered(), tmp_path, "train")) == sorted(Scattered().examples("train", {}))


def test_a_text_with_a_line_end_inside_does_not_misalign_the_text_files(tmp_path):
    class Broken(Letters):
        def examples(self, split, files):
            for inputs, targets in super().examples(split, files):
                yield Example(inputs + "\nmore", targets)

    with pytest.raises(UserError, match="line"):
        generate(Broken(), tmp_path, tmp_path / "none", say=silent)


class Files(Problem):
    """Reads two files of a sentence a line for every split."""

    vocab_size = 60
    byte_fallback = False
    num_shards = 2

    def __init__(self, folder=None):
        super().__init__()
        self.folder = folder

    @property
    def sources(self):
        return tuple(
            Source(name, (self.folder / name).as_uri(), sha256_of(self.folder / name)) for name in ("a.txt", "b.txt")
        )

    def examples(self, split, files):
        return read_parallel(files["a.txt"], files["b.txt"])


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("".join(f"{name} line {number}\n" for number in range(40)))
    return folder


def test_sources_are_recorded_with_checksums_and_a_read_only_folder_stays_as_it_was(tmp_path, sources, snapshot):
    before = snapshot(sources)
    sources.chmod(0o555)
    try:
        generate(Files(sources), tmp_path / "data", sources, say=silent)
    finally:
        sources.chmod(0o755)
    assert snapshot(sources) == before
    manifest = read_manifest(tmp_path / "data", Files(sources))
    assert manifest.sources == {name: sha256_of(sources / name) for name in ("a.txt", "b.txt")}


def test_a_source_with_a_wrong_checksum_is_an_error_and_nothing_is_made(tmp_path, sources):
    problem = Files(sources)
    expected = problem.sources

    class Published(Files):
        data_name = "files"
        sources = expected

    (sources / "b.txt").write_text("something else\n")
    with pytest.raises(UserError) as caught:
        generate(Published(), tmp_path / "data", sources, say=silent)
    assert str(sources / "b.txt") in str(caught.value)
    assert not (tmp_path / "data").exists() or names_in(tmp_path / "data") == []


@pytest.mark.parametrize(
    "content, said",
    [(b"one line\n", "has more lines than"), (b"good\n" * 4 + b"caf\xe9\n" * 36, "line 5: not UTF-8")],
    ids=["another length", "not UTF-8"],
)
def test_bad_source_text_is_one_line_that_names_the_file_and_nothing_is_made(tmp_path, sources, content, said):
    (sources / "b.txt").write_bytes(content)
    with pytest.raises(UserError) as caught:
        generate(Files(sources), tmp_path / "data", sources, say=silent)
    assert said in str(caught.value) and str(sources / "b.txt") in str(caught.value)
    assert "\n" not in str(caught.value) and "INTERNAL" not in str(caught.value)
    assert not (tmp_path / "data").exists() or names_in(tmp_path / "data") == []


def damage(data_dir, what):
    shard = data_dir / "letters-train-00001-of-00003"
    if what == "cut short":
        shard.write_bytes(shard.read_bytes()[:-10])
    elif what == "empty":
        shard.write_bytes(b"")
    elif what == "missing":
        shard.unlink()
    elif what == "manifest":
        (data_dir / "manifest.letters.json").write_text('{"problem": "letters"')
    elif what == "manifest of another version":
        (data_dir / "manifest.letters.json").write_text('{"problem": "letters", "new": 1}')
    elif what == "manifest not UTF-8":
        (data_dir / "manifest.letters.json").write_bytes(b"\xff\xff")
    elif what == "manifest without shards":
        text = (data_dir / "manifest.letters.json").read_text().replace('"shards"', '"shreds"')
        (data_dir / "manifest.letters.json").write_text(text)
    elif what == "vocabulary":
        (data_dir / "vocab.letters.60.subwords").write_bytes(b"other")
    elif what == "no vocabulary":
        (data_dir / "vocab.letters.60.subwords").unlink()


@pytest.mark.parametrize(
    "what, named",
    [
        ("cut short", "letters-train-00001-of-00003"),
        ("empty", "letters-train-00001-of-00003"),
        ("missing", "letters-train-00001-of-00003"),
        ("manifest", "manifest.letters.json"),
        ("manifest of another version", "manifest.letters.json"),
        ("manifest not UTF-8", "manifest.letters.json"),
        ("manifest without shards", "manifest.letters.json"),
        ("vocabulary", "vocab.letters.60.subwords"),
        ("no vocabulary", "vocab.letters.60.subwords"),
    ],
)
def test_damaged_data_is_an_error_that_names_the_file_and_the_way_out(whole, tmp_path, what, named, snapshot):
    for name, content in contents_of(whole).items():
        (tmp_path / name).write_bytes(content)
    damage(tmp_path, what)
    before = snapshot(tmp_path)
    with pytest.raises(UserError) as caught:
        check_data(tmp_path, Letters())
    assert str(tmp_path / named) in str(caught.value)
    assert "t2t-lite-datagen" in str(caught.value) and "\n" not in str(caught.value)
    assert snapshot(tmp_path) == before


def test_doing_what_the_message_about_a_damaged_shard_says_mends_it(whole, tmp_path):
    for name, content in contents_of(whole).items():
        (tmp_path / name).write_bytes(content)
    damage(tmp_path, "cut short")
    with pytest.raises(UserError, match="remove it and run: t2t-lite-datagen"):
        generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    (tmp_path / "letters-train-00001-of-00003").unlink()
    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    assert contents_of(tmp_path) == contents_of(whole)


def test_a_folder_without_data_is_an_error_with_the_command_that_makes_it(tmp_path, whole):
    command = "t2t-lite-datagen --problem=letters --data_dir="
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(UserError) as caught:
            check_data(folder, Letters())
        assert f"{command}{folder}" in str(caught.value)
    with pytest.raises(UserError, match="holds no data of 'multi30k_ende'"):
        check_data(whole, get_problem("multi30k_ende"))


@pytest.mark.slow
def test_multi30k_is_whole_and_its_folder_is_not_written_to(multi30k_data, multi30k_dir, snapshot, tmp_path):
    problem = get_problem("multi30k_ende")
    before = snapshot(multi30k_dir)
    manifest = read_manifest(multi30k_data, problem)
    assert {split: manifest.splits[split]["examples"] for split in SPLITS} == {
        "train": 29_000,
        "dev": 1014,
        "test": 1000,
    }
    assert manifest.vocabulary["size"] == 6000
    assert manifest.sources == {source.name: source.sha256 for source in problem.sources}
    files = {source.name: multi30k_dir / source.name for source in problem.sources}
    generate(problem, tmp_path, multi30k_dir, say=silent)
    for split in SPLITS:
        assert sorted(texts_of(problem, tmp_path, split)) == sorted(problem.examples(split, files))
    assert contents_of(tmp_path) == contents_of(multi30k_data)
    assert snapshot(multi30k_dir) == before
    assert not [name for name in os.listdir(tmp_path) if ".incomplete" in name or ".spill" in name]
