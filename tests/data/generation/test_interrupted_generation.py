"""An interrupted or killed generation ends with the same data as an uninterrupted one; lost files are regenerated."""

import collections
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.letters import Letters, contents_of, names_in, silent, texts_of

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.manifest import check_data
from t2t_lite.data.problem import SPLITS
from t2t_lite.errors import UserError


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The data of Letters, generated without interruption."""
    data_dir = tmp_path_factory.mktemp("whole")
    generate(Letters(), data_dir, data_dir / "none", say=silent)
    return data_dir


class Stop(Exception):
    """The exception that interrupts a generation."""


# The vocabulary takes the first pass over train, the shards the second; text files take another pass over dev, test.
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
@pytest.mark.parametrize(
    "split, index, which_pass",
    [("train", 150, 1), ("train", 150, 2), ("dev", 0, 1), ("dev", 4, 1), ("dev", 4, 2), ("test", 4, 1), ("test", 4, 2)],
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


def test_a_resumed_run_keeps_a_finished_split(tmp_path, snapshot):
    class Interrupted(Letters):
        data_name = "letters"
        passes = 0

        def visit(self, split, index):
            self.passes += (split, index) == ("dev", 0)
            if self.passes == 2:  # the first one writes the text
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
from support.letters import Letters
from t2t_lite.data.generation.generate import generate

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


@pytest.mark.heavy
@pytest.mark.parametrize("where", ["visit", pytest.param("said", marks=pytest.mark.slow)])
def test_a_killed_run_resumes_and_ends_with_the_same_bytes(whole, tmp_path, where):
    code = KILLED.format(tests=str(Path(__file__).parents[2]), where=where, data_dir=str(tmp_path))
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
def test_leftovers_of_a_run_killed_between_two_files_are_removed(whole, tmp_path, left_over, lost):
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
def test_a_lost_file_is_regenerated(whole, tmp_path, lost):
    for name, content in contents_of(whole).items():
        if name != lost:
            (tmp_path / name).write_bytes(content)
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
        source = collections.Counter(tuple(pair) for pair in Letters().examples(split, {}))
        assert collections.Counter(texts_of(Letters45(), tmp_path, split)) == source
