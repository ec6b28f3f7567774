"""File locks between processes. The operating system frees a lock when its process ends or dies."""

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

from t2t_lite.errors import UserError
from t2t_lite.files import make_folder

TRAINING = "training.lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@contextlib.contextmanager
def training_in(directory: Path) -> Iterator[None]:
    """Inside the block, nobody else trains in a run directory. The directory is made if it is not there.

    Raises:
      UserError: if another process, or this one in another place, is training there; the message tells which.
    """
    directory = Path(directory)
    is_new = not directory.exists()
    make_folder(directory, "--output_dir")
    try:
        with contextlib.ExitStack() as stack:
            try:
                is_held = stack.enter_context(locked(directory / TRAINING, wait=False))
            except BlockingIOError as error:
                raise UserError(
                    f"--output_dir={directory}: {_holder(directory / TRAINING)} is training there; wait until it ends, "
                    f"or use another directory"
                ) from error
            if not is_held:
                logging.getLogger("t2t_lite").warning(
                    f"{directory} is on a file system without locks; make sure that nothing else trains there"
                )
            yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # something was written
                directory.rmdir()


@contextlib.contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """Inside the block, the lock of that name is held. It holds between the threads of a process, too.

    It gives False where the file system knows no locks, and so there is none.

    Args:
      path: a file that is there as long as the lock is held, and tells by whom.
      wait: whether to wait until it is free.

    Raises:
      BlockingIOError: if it is not free and is not waited for.
    """
    file, is_held = _acquired(path, wait)
    try:
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": f"{datetime.datetime.now():%Y-%m-%d %H:%M}",
        }
        with contextlib.suppress(OSError):  # a full disk: nobody can be told who it is
            file.truncate(0)
            file.write(json.dumps(holder))
            file.flush()
        yield is_held
    finally:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            file.close()


def _acquired(path: Path, wait: bool):
    """Returns (the open file, whether it is locked), once it is or cannot be."""
    while True:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # The holder before may have removed the file meanwhile: then this lock keeps nobody out.
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
    except (OSError, ValueError, KeyError, TypeError):  # it has only just begun, or just ended
        return "another process"
