"""Checkpoints replace each other safely, whenever the process is killed."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite.runs.checkpoint_files import (
    DATA,
    INDEX,
    checkpoint_step,
    existing,
    list_checkpoints,
    partial_path,
    publish,
    remove,
    remove_leftovers,
    unfinished,
)

STEPS = ("replace", "unlink", "fsync")  # the operations that change or flush names


def written(directory, name, content):
    """The path of a checkpoint that is written but not published."""
    partial = partial_path(directory / name)
    for ending in (DATA, INDEX):
        partial.with_name(partial.name + ending).write_text(f"{content}{ending}")
    return partial


def contents(path):
    """The content of a checkpoint's files; both must belong to the same checkpoint."""
    texts = {path.with_name(path.name + ending).read_text().removesuffix(ending) for ending in (DATA, INDEX)}
    assert len(texts) == 1
    return texts.pop()


def only(directory, kind="ckpt"):
    """The content of the only checkpoint in a directory."""
    ((_, path),) = list_checkpoints(directory, kind)
    return contents(path)


def killed_at(moment, function, *arguments):
    """Runs a function in a process that dies before (even) or after (odd) its n-th step; returns whether it did."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    made = 0

    def dying(real):
        def call(*args, **kwargs):
            nonlocal made
            if made == moment // 2 and moment % 2 == 0:
                os._exit(9)
            result = real(*args, **kwargs)
            if made == moment // 2:
                os._exit(9)
            made += 1
            return result

        return call

    try:
        for name in STEPS:
            setattr(os, name, dying(getattr(os, name)))
        function(*arguments)
    finally:
        os._exit(0)


def walk_through_a_replacement(folder, kind):
    """Replaces a checkpoint repeatedly, killed one step later each time, until it is no longer killed."""
    moments = 0
    while True:
        directory = Path(folder) / str(moments)
        directory.mkdir()
        path = directory / f"{kind}-300"
        publish(written(directory, path.name, "old"), path)
        if not killed_at(moments, publish, written(directory, path.name, "new"), path):
            break
        moments += 1
        assert only(directory, kind) in ("old", "new")
        # The next checkpoint replaces whichever exists, and nothing else is left.
        remove_leftovers(directory, kind)
        publish(written(directory, path.name, "third"), path)
        assert only(directory, kind) == "third"
        assert len(list(directory.iterdir())) == 2
    assert only(directory, kind) == "new"
    return moments


def walk_through_a_removal(folder):
    """Removes one of two checkpoints, killed in the same way."""
    moments = 0
    while True:
        directory = Path(folder) / str(moments)
        directory.mkdir()
        for step in (7, 8):
            publish(written(directory, f"ckpt-{step}", str(step)), directory / f"ckpt-{step}")
        if not killed_at(moments, remove, directory / "ckpt-7"):
            return moments
        moments += 1
        assert [contents(path) for _, path in list_checkpoints(directory)] in (["7", "8"], ["8"])
        remove_leftovers(directory, "ckpt")
        assert len(list(directory.iterdir())) == 2 * len(list_checkpoints(directory))


def in_a_small_process(function, *arguments):
    """Calls a function of this file in a process without TensorFlow, which is cheap to fork; returns a number."""
    code = f"import {Path(__file__).stem} as here; print(here.{function.__name__}(*{arguments!r}))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("kind", ["ckpt", "average"])
def test_a_replacement_killed_at_any_moment_leaves_a_complete_checkpoint(tmp_path, kind):
    # Two files flushed, each renamed and its folder flushed; each of the old ones removed and its folder flushed.
    assert in_a_small_process(walk_through_a_replacement, str(tmp_path), kind) == 2 * (2 + 4 + 4)


def test_a_removal_killed_at_any_moment_leaves_the_checkpoint_complete_or_absent(tmp_path):
    assert in_a_small_process(walk_through_a_removal, str(tmp_path)) == 2 * 4


def test_the_newest_version_is_listed_and_older_ones_are_removed(tmp_path):
    for content in ("one", "two", "three"):
        path = publish(written(tmp_path, "ckpt-12", content), tmp_path / "ckpt-12")
    assert path == tmp_path / "ckpt-12.v3"
    assert list_checkpoints(tmp_path) == [(12, path)]
    assert contents(path) == "three"
    assert existing(tmp_path / "ckpt-12") == path == existing(path)
    assert existing(tmp_path / "ckpt-13") is None and existing(tmp_path / "ckpt-x") is None
    assert [checkpoint_step(each) for each in (path, tmp_path / "average-7", tmp_path / "model")] == [12, 7, 0]
    remove(path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_without_a_version_means_the_newest_by_number_even_while_older_ones_exist(tmp_path):
    for version in ("", ".v2", ".v10", ".v9"):
        for ending in (DATA, INDEX):
            (tmp_path / f"ckpt-5{version}{ending}").write_text(f"{version}{ending}")
    newest = tmp_path / "ckpt-5.v10"
    assert existing(tmp_path / "ckpt-5") == existing(newest) == existing(tmp_path / "ckpt-5.v20") == newest
    assert only(tmp_path) == ".v10"
    remove_leftovers(tmp_path, "ckpt")
    assert len(list(tmp_path.iterdir())) == 2
    assert only(tmp_path) == ".v10"
    (tmp_path / "mine.index").touch()
    assert existing(tmp_path / "mine") == tmp_path / "mine"


def test_checkpoints_are_written_to_a_folder_that_cannot_be_flushed(tmp_path, monkeypatch):
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    publish(written(tmp_path, "ckpt-1", "content"), tmp_path / "ckpt-1")
    assert only(tmp_path) == "content"
    monkeypatch.setattr(os, "fsync", lambda descriptor: os.write(-1, b""))
    with pytest.raises(OSError):
        publish(written(tmp_path, "ckpt-2", "content"), tmp_path / "ckpt-2")


def test_names_of_unfinished_checkpoints_are_unique(tmp_path):
    names = {written(tmp_path, "ckpt-5", "x").name for _ in range(20)}
    assert len(names) == 20
    assert len(unfinished(tmp_path, "ckpt")) == 40
    assert list_checkpoints(tmp_path) == [] and unfinished(tmp_path, "average") == []


def test_complete_checkpoints_are_listed_by_step(tmp_path):
    whole = ["ckpt-100.index", "ckpt-20.index", "ckpt-3.index", "average-100.index"]
    for name in (*whole, "ckpt-7.data-00000-of-00001", "incomplete-ckpt-8.index", "ckpt-x.index"):
        (tmp_path / name).touch()
    assert list_checkpoints(tmp_path) == [(step, tmp_path / f"ckpt-{step}") for step in (3, 20, 100)]
    assert list_checkpoints(tmp_path, "average") == [(100, tmp_path / "average-100")]
    assert list_checkpoints(tmp_path / "none") == []
