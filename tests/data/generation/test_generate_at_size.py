"""Generation in many chunks: workers, interruptions at any point, bounded tokens, Apache Beam."""

import itertools
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.letters import contents_of, silent

from t2t_lite.data.generation import shards
from t2t_lite.data.generation.generate import GenerateOptions, generate
from t2t_lite.data.manifest import check_data, read_manifest
from t2t_lite.data.problem import Example, Problem
from t2t_lite.data.vocab import open_vocabulary, train_vocabulary
from t2t_lite.errors import UserError

COUNTS = {"train": 3000, "dev": 250, "test": 30}


class Numerals(Problem):
    """Generated pairs, one in 50 of which has an empty side; `visit` is called before each."""

    vocab_size = 60
    byte_fallback = False
    num_shards = 4

    def visit(self, split, index):
        pass

    def examples(self, split, files):
        for index in range(COUNTS[split]):
            self.visit(split, index)
            yield Example(f"{index} {split}" if index % 50 else " ", f"{index * index % 977}")


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    """30 chunks, and several buckets per shard."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "CHUNK_PAIRS", 100)
        patch.setattr(shards, "BUCKET_RECORDS", 250)
        yield


@pytest.fixture(scope="module")
def whole(small_chunks, tmp_path_factory):
    """The data of an uninterrupted run."""
    data_dir = tmp_path_factory.mktemp("whole")
    generate(Numerals(), data_dir, data_dir / "none", say=silent)
    return data_dir


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_number_of_workers_does_not_change_the_bytes(whole, tmp_path, workers):
    generate(Numerals(), tmp_path, tmp_path / "none", silent, GenerateOptions(num_workers=workers))
    assert contents_of(tmp_path) == contents_of(whole)


def test_dropped_pairs_are_counted_by_drop_reason_and_missing_from_the_text_files(whole):
    splits = read_manifest(whole, Numerals()).splits
    assert {split: made["examples"] for split, made in splits.items()} == {"train": 2940, "dev": 245, "test": 29}
    assert splits["train"]["dropped"] == {"an empty side": 60}
    assert len((whole / "numerals-dev.inputs.txt").read_text().splitlines()) == 245


def interrupted_after(data_dir, calls, name):
    """Generates until a function of `shards` has been called a number of times; returns the files that are left."""
    original, left = getattr(shards, name), itertools.count(calls, -1)

    def stopping(*arguments):
        if next(left) <= 0:
            raise KeyboardInterrupt
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, name, stopping)
        with pytest.raises(KeyboardInterrupt):
            generate(Numerals(), data_dir, data_dir / "none", silent, GenerateOptions(num_workers=1))
    return {path.relative_to(data_dir): path.stat().st_mtime_ns for path in data_dir.rglob("*")}


@pytest.mark.parametrize("calls", [0, 1, 17, 29])
def test_finished_chunks_are_not_encoded_again(whole, tmp_path, calls):
    left = interrupted_after(tmp_path, calls, "write_chunk")
    assert sum(path.suffix == ".arrow" for path in left) == calls
    encoded, original = [], shards.encode_pairs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "encode_pairs", lambda *given: encoded.append(given[1]) or original(*given))
        generate(Numerals(), tmp_path, tmp_path / "none", say=silent)
    assert encoded.count("train") == 30 - calls
    assert contents_of(tmp_path) == contents_of(whole)


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_finished_shards_are_not_written_again(whole, tmp_path, calls):
    left = interrupted_after(tmp_path, calls, "write_shard")
    written = {path: when for path, when in left.items() if path.name.startswith("numerals-train-0")}
    assert len(written) == calls
    with pytest.raises(UserError, match="t2t-lite-datagen --problem=numerals"):
        check_data(tmp_path, Numerals())
    generate(Numerals(), tmp_path, tmp_path / "none", say=silent)
    assert all((tmp_path / path).stat().st_mtime_ns == when for path, when in written.items())
    assert contents_of(tmp_path) == contents_of(whole)


def test_a_lost_shard_is_regenerated_and_the_others_are_kept(whole, tmp_path, snapshot):
    data_dir = shutil.copytree(whole, tmp_path / "data")
    (data_dir / "numerals-train-00002-of-00004").unlink()
    before = snapshot(data_dir)
    generate(Numerals(), data_dir, data_dir / "none", say=silent)
    changed = before.items() ^ snapshot(data_dir).items()
    assert {name for name, _ in changed} <= {"numerals-train-00002-of-00004", "manifest.numerals.json"}
    assert contents_of(data_dir) == contents_of(whole)


KILLED = """
import pathlib, sys
sys.path[:0] = {tests!r}
import test_generate_at_size as tests
tests.shards.CHUNK_PAIRS, tests.shards.BUCKET_RECORDS = 100, 250
print("begins", flush=True)
tests.generate(tests.Numerals(), pathlib.Path({data_dir!r}), pathlib.Path("none"), say=tests.silent)
"""


def generating(data_dir):
    """Starts a process that generates; returns it when it begins."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    code = KILLED.format(tests=folders, data_dir=str(data_dir))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"begins\n"
    return process


@pytest.mark.heavy
def test_a_run_killed_at_ten_random_moments_ends_with_the_same_bytes(whole, tmp_path):
    uninterrupted, began = generating(tmp_path / "uninterrupted"), time.monotonic()
    uninterrupted.communicate()
    assert uninterrupted.returncode == 0
    seconds = time.monotonic() - began
    draw, killed, data_dir = random.Random(6), 0, tmp_path / "killed"
    for _ in range(10):
        process = generating(data_dir)
        time.sleep(draw.uniform(0, seconds / 4))
        process.kill()  # does nothing where the process has ended
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert killed >= 3
    generate(Numerals(), data_dir, data_dir / "none", say=silent)
    assert contents_of(data_dir) == contents_of(whole)


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True])
def test_beam_writes_the_same_bytes_and_resumes_a_generation_begun_without_it(whole, tmp_path, begun):
    pytest.importorskip("apache_beam")
    if begun:
        interrupted_after(tmp_path, 2, "write_shard")
    generate(Numerals(), tmp_path, tmp_path / "none", silent, GenerateOptions(runner="direct", num_workers=3))
    assert contents_of(tmp_path) == contents_of(whole)


def test_max_cases_limits_only_the_train_split(tmp_path):
    splits = generate(Numerals(), tmp_path, tmp_path / "none", silent, GenerateOptions(max_cases=500)).splits
    assert {split: made["examples"] for split, made in splits.items()} == {"train": 490, "dev": 245, "test": 29}


@pytest.mark.parametrize("change", [{"num_shards": 3}, {"vocab_size": 50}, {"vocab_kind": "bytes"}, {"max_cases": 9}])
def test_finished_data_with_other_settings_is_refused(whole, change):
    problem, options = Numerals(), GenerateOptions(max_cases=change.get("max_cases", 0))
    for name, value in change.items():
        setattr(problem, name, value)
    before = contents_of(whole)
    with pytest.raises(UserError, match=f"`{next(iter(change))}"):
        generate(problem, whole, whole / "none", silent, options)
    assert contents_of(whole) == before


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["wordpiece", "characters", "bytes"])
def test_data_with_every_kind_of_vocabulary(tmp_path, kind):
    problem = Numerals()
    problem.vocab_kind, problem.vocab_size = kind, 300
    manifest = generate(problem, tmp_path, tmp_path / "none", say=silent)
    assert manifest.splits["train"]["examples"] == 2940
    assert open_vocabulary(tmp_path / manifest.vocabulary["file"]).size <= 300
    assert check_data(tmp_path, problem) == manifest


def test_a_vocabulary_given_as_a_file_is_used(tmp_path):
    train_vocabulary((f"{i} train dev test" for i in range(1000)), 40, tmp_path / "theirs")
    problem = Numerals()
    problem.vocab_file = str(tmp_path / "theirs")
    manifest = generate(problem, tmp_path / "data", tmp_path / "none", say=silent)
    assert (tmp_path / "data" / manifest.vocabulary["file"]).read_bytes() == (tmp_path / "theirs").read_bytes()
    problem.vocab_file = f"{tmp_path / 'theirs'},{tmp_path / 'theirs'}"
    with pytest.raises(UserError, match="names 2"):
        generate(problem, tmp_path / "other", tmp_path / "none", say=silent)
