"""Locks between processes and threads."""

import errno
import fcntl
import json
import os
import signal
import socket
import threading
import time

import pytest

from t2t_lite.errors import UserError
from t2t_lite.system.locks import TRAINING, locked, training_in


def refusal(directory):
    with pytest.raises(UserError) as caught, training_in(directory):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_second_training_in_a_directory_is_refused_with_the_process_of_the_first(tmp_path):
    with training_in(tmp_path):
        message = refusal(tmp_path)
        assert f"`output_dir={tmp_path}`: process {os.getpid()} on {socket.gethostname()}, since 20" in message
        (tmp_path / TRAINING).write_text("")  # it has not been written to yet
        assert "another process is training there" in refusal(tmp_path)
    with pytest.raises(BlockingIOError), training_in(tmp_path):
        raise BlockingIOError("of the training itself")
    with training_in(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_created_by_the_lock_is_removed_if_nothing_was_written(tmp_path):
    for written in (False, True):
        with training_in(tmp_path / "a" / "run"):
            assert (tmp_path / "a" / "run").is_dir()
            if written:
                (tmp_path / "a" / "run" / "hparams.json").touch()
        assert (tmp_path / "a" / "run").exists() == written


def test_the_death_of_its_process_releases_the_lock(tmp_path):
    child = os.fork()
    if not child:
        with training_in(tmp_path):
            time.sleep(600)
        os._exit(0)
    while not (tmp_path / TRAINING).exists() or not (tmp_path / TRAINING).read_text():
        time.sleep(0.01)
    assert f"process {child} on " in refusal(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert json.loads((tmp_path / TRAINING).read_text())["pid"] == child  # the file stays, the lock does not
    with training_in(tmp_path):
        pass


def test_waiting_threads_get_the_lock_one_at_a_time(tmp_path):
    inside, most, total = 0, 0, 0

    def work():
        nonlocal inside, most, total
        for _ in range(20):
            with locked(tmp_path / "x.lock", wait=True):
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)
                total += 1
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, total) == (1, 80)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_gives_a_warning(tmp_path, monkeypatch, caplog):
    def flock(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with training_in(tmp_path):
        assert [record.getMessage() for record in caplog.records] == [
            f"{tmp_path} is on a file system without locks; make sure that no other process trains there"
        ]
