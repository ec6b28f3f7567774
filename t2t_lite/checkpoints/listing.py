"""Which checkpoints a directory holds, and how one takes the place of another: names and files, no TensorFlow.

A checkpoint is two files, `ckpt-<step>.data-00000-of-00001` and `ckpt-<step>.index`; the index makes it one. Two files
cannot be replaced at once, so a checkpoint never takes the name of one that is there: the next of the same step is
called `ckpt-<step>.v2`, then `.v3`, and the highest version is the one that counts. So a process may be killed, or a
machine lose power, at any moment: a whole checkpoint is there.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.files import INCOMPLETE

DATA = ".data-00000-of-00001"
INDEX = ".index"
# What file systems say that cannot flush a folder.
_NO_FLUSH = (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS, errno.EACCES)
_NAME = r"{kind}-(\d+)(?:\.v(\d+))?"


def list_checkpoints(directory: Path, kind: str = "ckpt") -> list[tuple[int, Path]]:
    """Returns (step, path without ending) of the whole checkpoints, by step. `kind` is "ckpt" or "average"."""
    return [(step, path) for step, versions in _found(directory, kind, INDEX) for path in versions[-1:]]


def best_checkpoint(path: Path) -> Path:
    """Returns the checkpoint to use, without ending: the average of checkpoints if there is one, else the last one.

    Raises:
      UserError: if there is none.
    """
    for kind in ("average", "ckpt"):
        if found := list_checkpoints(path, kind):
            return found[-1][1]
    raise UserError(f"{path} has no checkpoint yet; train first, with t2t-lite-trainer --output_dir={path}")


def step_of(path: Path) -> int:
    """Returns the step of a checkpoint, given its path without ending; 0 if its name tells of none."""
    match = re.fullmatch(_NAME.format(kind=".*"), Path(path).name)
    return int(match[1]) if match else 0


def partial_path(path: Path) -> Path:
    """Returns a name of its own, beside `path`, under which a checkpoint of that name can be written."""
    return path.with_name(f"{INCOMPLETE}-{path.name}-{secrets.token_hex(4)}")


def unfinished(directory: Path, kind: str) -> list[Path]:
    """Returns what processes that were killed while they wrote have left; `kind` is "ckpt" or "average"."""
    return sorted(Path(directory).glob(f"{INCOMPLETE}-{kind}-*"))


def remove_leftovers(directory: Path, kind: str) -> None:
    """Removes what killed processes have left: unfinished checkpoints, older versions, data without an index."""
    for leftover in unfinished(directory, kind):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()
    for _, versions in _found(directory, kind, INDEX):
        for old in versions[:-1]:
            _remove(old)
    whole = {path for _, versions in _found(directory, kind, INDEX) for path in versions}
    for _, versions in _found(directory, kind, DATA):
        for path in set(versions) - whole:
            _unlink(path, DATA)


def existing(path: Path) -> Path | None:
    """Returns a checkpoint that is asked for, or the version that has taken its place; None if there is neither."""
    if match := re.fullmatch(_NAME.format(kind="([a-z]+)"), path.name):
        versions = dict(_found(path.parent, match[1], INDEX)).get(int(match[2]), [])
        # A version that is asked for by its number may be there still; without one the newest is meant.
        return path if match[3] and path in versions else next(reversed(versions), None)
    return path if Path(f"{path}{INDEX}").exists() else None


def publish(partial: Path, path: Path) -> Path:
    """Gives a checkpoint that is written its name, in the place of one of the same kind and step if there is one.

    Args:
      partial: where it is, without ending.
      path: what it is to be called, "ckpt-<step>" or "average-<step>".

    Returns:
      what it is called.
    """
    kind, step = path.name.rsplit("-", 1)
    old = dict(_found(path.parent, kind, INDEX)).get(int(step), [])
    if old:
        path = path.with_name(f"{path.name}.v{_version(old[-1]) + 1}")
    for ending in (DATA, INDEX):
        _flush(f"{partial}{ending}")
    for ending in (DATA, INDEX):  # never an index without its data
        os.replace(f"{partial}{ending}", f"{path}{ending}")
        _flush(path.parent)
    for version in old:
        _remove(version)
    return path


def remove(path: Path) -> None:
    """Removes a checkpoint, in all versions that there are of it."""
    kind = path.name.rsplit("-", 1)[0]
    for version in dict(_found(path.parent, kind, INDEX)).get(step_of(path), []):
        _remove(version)


def _remove(path: Path) -> None:
    for ending in (INDEX, DATA):  # the index first, so that no half of it looks like a whole one
        _unlink(path, ending)


def _unlink(path: Path, ending: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}{ending}")
    _flush(path.parent)


def _flush(path: Path | str) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    is_folder = os.path.isdir(path)
    try:
        descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if not (is_folder and error.errno in _NO_FLUSH):
            raise


def _found(directory: Path, kind: str, ending: str) -> list[tuple[int, list[Path]]]:
    """Returns (step, paths of its versions without ending, the newest last), by step, of files with an ending."""
    by_step: dict[int, list[Path]] = {}
    for file in Path(directory).glob(f"{kind}-*{ending}"):
        path = file.with_name(file.name.removesuffix(ending))
        if re.fullmatch(_NAME.format(kind=kind), path.name):
            by_step.setdefault(step_of(path), []).append(path)
    return [(step, sorted(paths, key=_version)) for step, paths in sorted(by_step.items())]


def _version(path: Path) -> int:
    match = re.fullmatch(_NAME.format(kind=".*"), path.name)
    return int(match[2] or 1)
