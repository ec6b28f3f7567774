"""File locks between processes. The operating system releases a lock when its process ends or dies."""

import contextlib
import datetime
import errno
import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from t2t_lite.errors import UserError
from t2t_lite.files import make_folder

TRAINING = "training.lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@contextlib.contextmanager
def training_in(directory: Path) -> Iterator[None]:
    """Holds the training lock of a run directory inside the block. Creates the directory if it does not exist."""
    is_new = not directory.exists()
    make_folder(directory, "`output_dir`")
    try:
        with contextlib.ExitStack() as stack:
            try:
                is_held = stack.enter_context(locked(directory / TRAINING, wait=False))
            except BlockingIOError as error:
                raise UserError(
                    f"`output_dir={directory}`: {_holder(directory / TRAINING)} is training there; wait until it ends, "
                    f"or use another directory"
                ) from error
            if not is_held:
                logging.getLogger("t2t_lite").warning(
                    f"{directory} is on a file system without locks; make sure that no other process trains there"
                )
            yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # keeps the directory if something was written to it
                directory.rmdir()


@contextlib.contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """Holds a file lock inside the block. The lock also excludes other threads of this process.

    Yields True, or False if the file system does not support locks, so that there is no protection. The file exists
    while the lock is held, and describes the holder. Raises BlockingIOError if the lock is taken and `wait` is False.
    """
    file, is_held = _acquired(path, wait)
    try:
        now = datetime.datetime.now()
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{now:%Y-%m-%d %H:%M}"}
        with contextlib.suppress(OSError):  # on a full disk the lock file stays empty
            file.truncate(0)
            file.write(json.dumps(holder))
            file.flush()
        yield is_held
    finally:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            file.close()


def _acquired(path: Path, wait: bool) -> tuple[TextIO, bool]:
    while True:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # The previous holder may have removed the file in the meantime. A lock on a removed file protects nothing.
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file, True
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return file, False
            file.close()
            raise
        file.close()


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']}, since {holder['since']},"
    except (OSError, ValueError, KeyError, TypeError):  # the holder has just started or ended
        return "another process"
