"""Writing files so that a reader, or a restarted run, never sees half of one."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from t2t_lite.errors import UserError

# In the names of all files that are not whole yet: the last extension, or for checkpoints the first word.
INCOMPLETE = "incomplete"


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Gives a name beside `path` to write to; the file appears under `path` when the block ends without an error.

    Raises:
      UserError: if `path` is a directory, or its folder is not there.
    """
    check_output(path, str(path))
    if path.exists() and not path.is_file():
        yield path  # a device or a pipe, such as /dev/null, is written to as it is
        return
    partial = partial_path(path)
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def make_folder(path: Path, flag: str) -> None:
    """Makes a folder and those around it, if they are not there.

    Raises:
      UserError: if there is a file, or no folder can be made; the message names `flag`.
    """
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        existing = next(each for each in (path, *path.parents) if each.exists())
        raise UserError(f"{flag}={path}: {existing} is a file; give a folder") from error
    except OSError as error:
        raise UserError(f"{flag}={path}: cannot make that folder ({error.strerror}); give another one") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"{flag}={path}: you may not write there; change its permissions, or give another folder")


def partial_path(path: Path) -> Path:
    """Returns a name beside `path` that nobody else writes to."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.{INCOMPLETE}")


def growing_path(path: Path) -> Path:
    """Returns the name beside `path` under which a file grows until it is whole."""
    return path.with_name(f"{path.name}.{INCOMPLETE}")


def progress_path(path: Path) -> Path:
    """Returns the name beside `path` of the file that records how far it has grown."""
    return path.with_name(f"{path.name}.progress")


def check_output(path: Path, what: str) -> None:
    """Raises UserError if no file can be written there; `what` names it: "--decode_to_file=out.txt"."""
    if not path.name or path.is_dir():
        raise UserError(f"{what} is a directory; give the name of a file")
    if not path.parent.is_dir():
        raise UserError(f"{what}: there is no folder {path.parent}; make it first")


def check_outputs(outputs: Mapping[str, Path], inputs: Mapping[str, Path]) -> None:
    """Refuses outputs that cannot be written, or would overwrite an input or one another, themselves or as they grow.

    Args:
      outputs, inputs: files by what names them, a flag or "standard input".

    Raises:
      UserError: the message names the flags. Two names of one file, such as links, are found out; a device or a pipe
        may be named several times.
    """
    before = dict(inputs)
    for flag, path in outputs.items():
        check_output(path, f"{flag}={path}")
        for other_flag, other in before.items():
            if is_same_file(path, other):
                raise UserError(f"{flag}={path} is the same file as {other_flag}; give it a name of its own")
            if _grows_over(path, other) or (other_flag in outputs and _grows_over(other, path)):
                raise UserError(f"{flag}={path} and {other_flag}={other} would be mixed up while one grows; rename one")
        before[flag] = path


def _grows_over(path: Path, other: Path) -> bool:
    return any(is_same_file(beside, other) for beside in (growing_path(path), progress_path(path)))


def is_same_file(path: Path, other: Path) -> bool:
    """Returns whether writing to `path` would overwrite `other`; no device or pipe is overwritten."""
    if path.exists() and other.exists():
        return path.is_file() and os.path.samefile(path, other)
    return path.resolve() == other.resolve()


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 text file whole."""
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def sha256_of(path: Path) -> str:
    """Returns the checksum of a file's content in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
