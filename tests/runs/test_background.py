"""Checkpoints written in a thread: their order, and errors in the caller's thread."""

import threading
from pathlib import Path

import pytest

from t2t_lite.errors import UserError
from t2t_lite.runs.checkpoints import BackgroundWriter


def test_a_written_checkpoint_is_taken_once():
    writer, may_end = BackgroundWriter(), threading.Event()

    def write():
        may_end.wait()
        return Path("ckpt-5")

    assert writer.take(wait=True) is None
    writer.start(5, write)
    assert writer.take(wait=False) is None
    with pytest.raises(RuntimeError):
        writer.start(6, write)
    may_end.set()
    assert writer.take(wait=True) == (5, Path("ckpt-5"))
    assert writer.take(wait=True) is None
    writer.start(6, lambda: Path("ckpt-6"))
    writer.wait()
    assert writer.take(wait=False) == (6, Path("ckpt-6"))


def test_an_error_is_raised_where_the_checkpoint_is_taken():
    writer = BackgroundWriter()

    def write():
        raise UserError("the disk is full")

    writer.start(5, write)
    writer.wait()
    with pytest.raises(UserError, match="the disk is full"):
        writer.take(wait=False)
    writer.start(6, lambda: Path("ckpt-6"))
    assert writer.take(wait=True) == (6, Path("ckpt-6"))
