"""Lists, publishes and removes the checkpoints of a directory. Handles only names and files, without TensorFlow.

A checkpoint consists of two files, `ckpt-<step>.data-00000-of-00001` and `ckpt-<step>.index`, and exists once its index
exists. Two files cannot be replaced atomically, so a checkpoint never overwrites another one: the next checkpoint of
the same step is named `ckpt-<step>.v2`, then `.v3`, and the highest version counts. A complete checkpoint therefore
survives a killed process or a power failure at any moment.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.files import INCOMPLETE, file_sha256, write_text

DATA = ".data-00000-of-00001"
INDEX = ".index"
MEMBERS = ".members.json"  # of an average: the steps of the checkpoints in it
# Errors of file systems that cannot flush a folder.
_NO_FLUSH = (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS, errno.EACCES)
_NAME = r"{kind}-(\d+)(?:\.v(\d+))?"


def list_checkpoints(directory: Path, kind: str = "ckpt") -> list[tuple[int, Path]]:
    """Returns (step, path without suffix) of all complete checkpoints, sorted by step. `kind`: "ckpt" or "average"."""
    return [(step, path) for step, versions in _versions_by_step(directory, kind, INDEX) for path in versions[-1:]]


def best_checkpoint(path: Path) -> Path:
    """Returns the checkpoint to use, without suffix: the average of checkpoints if it exists, else the last one."""
    for kind in ("average", "ckpt"):
        if checkpoints := list_checkpoints(path, kind):
            return checkpoints[-1][1]
    raise UserError(f"{path} has no checkpoint yet; train first, with t2t-lite-trainer --output_dir={path}")


def checkpoint_step(path: Path) -> int:
    """Returns the step of a checkpoint, given its path without suffix; 0 if its name contains none."""
    match = re.fullmatch(_NAME.format(kind=".*"), Path(path).name)
    return int(match[1]) if match else 0


def partial_path(path: Path) -> Path:
    """Returns a unique path beside `path`, where a checkpoint is written before it is published as `path`."""
    return path.with_name(f"{INCOMPLETE}-{path.name}-{secrets.token_hex(4)}")


def unfinished(directory: Path, kind: str) -> list[Path]:
    """Returns the incomplete files left by killed processes; `kind` is "ckpt" or "average"."""
    return sorted(Path(directory).glob(f"{INCOMPLETE}-{kind}-*"))


def remove_leftovers(directory: Path, kind: str) -> None:
    """Removes leftovers of killed processes: incomplete checkpoints, older versions, data without an index."""
    for leftover in unfinished(directory, kind):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()
    for _, versions in _versions_by_step(directory, kind, INDEX):
        for old in versions[:-1]:
            _remove(old)
    whole = {path for _, versions in _versions_by_step(directory, kind, INDEX) for path in versions}
    for ending in (DATA, MEMBERS):
        for _, versions in _versions_by_step(directory, kind, ending):
            for path in set(versions) - whole:
                _unlink(path, ending)


def existing(path: Path) -> Path | None:
    """Returns the path of a requested checkpoint, or of the version that replaced it; None if neither exists."""
    if match := re.fullmatch(_NAME.format(kind="([a-z]+)"), path.name):
        versions = dict(_versions_by_step(path.parent, match[1], INDEX)).get(int(match[2]), [])
        # A version requested by number may still exist; a name without a version means the newest one.
        return path if match[3] and path in versions else next(reversed(versions), None)
    return path if Path(f"{path}{INDEX}").exists() else None


def publish(partial: Path, path: Path, members: Sequence[int] = ()) -> Path:
    """Renames a written checkpoint to its final name, and removes older versions of the same kind and step.

    Neither path has a suffix, and `path` has no version: "ckpt-<step>" or "average-<step>". Returns the final name,
    with a version if this step already had a checkpoint. The steps of the checkpoints in an average, `members`, are
    recorded beside it, for readers without TensorFlow.
    """
    kind, step = path.name.rsplit("-", 1)
    if old := dict(_versions_by_step(path.parent, kind, INDEX)).get(int(step), []):
        path = path.with_name(f"{path.name}.v{_version(old[-1]) + 1}")
    for ending in (DATA, INDEX):
        _flush(f"{partial}{ending}")
    if members:
        write_text(Path(f"{path}{MEMBERS}"), json.dumps([*members]) + "\n")
    for ending in (DATA, INDEX):  # an index never exists without its data
        os.replace(f"{partial}{ending}", f"{path}{ending}")
        _flush(path.parent)
    for version in old:
        _remove(version)
    return path


def recorded_members(path: Path) -> list[int]:
    """Returns the steps of the checkpoints in an average; [] if they are not recorded."""
    file = Path(f"{path}{MEMBERS}")
    try:
        steps = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(steps, list) or not all(isinstance(step, int) for step in steps):
            raise ValueError("not a list of steps")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is damaged ({error}); remove it, or average again with t2t-lite-avg") from error
    return steps


def remove(path: Path) -> None:
    kind = path.name.rsplit("-", 1)[0]
    for version in dict(_versions_by_step(path.parent, kind, INDEX)).get(checkpoint_step(path), []):
        _remove(version)


def remove_old(directory: Path, keep_max: int, keep: Collection[int]) -> None:
    """Removes all checkpoints except the last `keep_max` (1 or more) and those of the steps in `keep`."""
    if keep_max < 1:
        raise ValueError(f"keep_max must be at least 1, not {keep_max}")
    for step, path in list_checkpoints(directory)[:-keep_max]:
        if step not in keep:
            remove(path)


def _remove(path: Path) -> None:
    for ending in (INDEX, DATA):  # the index first, so that a partly removed checkpoint is never listed
        _unlink(path, ending)
    if (members := Path(f"{path}{MEMBERS}")).exists():
        members.unlink(missing_ok=True)


def _unlink(path: Path, ending: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}{ending}")
    _flush(path.parent)


def _flush(path: Path | str) -> None:
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


def _versions_by_step(directory: Path, kind: str, ending: str) -> list[tuple[int, list[Path]]]:
    """Returns (step, paths of its versions without suffix, newest last) for files with the suffix `ending`, by step."""
    by_step: dict[int, list[Path]] = {}
    for file in Path(directory).glob(f"{kind}-*{ending}"):
        path = file.with_name(file.name.removesuffix(ending))
        if re.fullmatch(_NAME.format(kind=kind), path.name):
            by_step.setdefault(checkpoint_step(path), []).append(path)
    return [(step, sorted(paths, key=_version)) for step, paths in sorted(by_step.items())]


def _version(path: Path) -> int:
    match = re.fullmatch(_NAME.format(kind=".*"), path.name)
    return int((match and match[2]) or 1)


def checkpoint_digest(checkpoint: Path) -> str:
    return file_sha256(Path(f"{checkpoint}{INDEX}"))
