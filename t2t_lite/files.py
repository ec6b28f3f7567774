"""Writes files atomically, so that readers never see a partial file; makes texts and numbers safe to store."""

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from t2t_lite.errors import UserError

_MAX_PATH = 4096  # Linux accepts no longer paths
# Marks incomplete files: it is the last extension of their names or, for checkpoints, the prefix.
INCOMPLETE = "incomplete"


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yields a temporary path to write to, and renames it to `path` when the block ends without an error."""
    check_output(path, str(path))
    if path.exists() and not path.is_file():
        yield path  # write directly to devices and pipes, such as /dev/null
        return
    partial = partial_path(path)
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def make_folder(path: Path, flag: str) -> None:
    """Creates a folder and its parents, if they do not exist. Messages name `flag`."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        existing = next(each for each in (path, *path.parents) if each.exists())
        raise UserError(f"{flag}={path}: {existing} is a file; pass a folder") from error
    except OSError as error:
        raise UserError(f"{flag}={path}: this folder cannot be created ({error.strerror}); pass another one") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"{flag}={path}: no write permission; change the permissions, or pass another folder")


@contextlib.contextmanager
def written_folder(path: Path, flag: str) -> Iterator[Path]:
    """Yields a temporary folder beside `path`, which replaces `path` when the block ends without an error."""
    make_folder(path.parent, flag)
    partial = partial_path(path)
    partial.mkdir()
    try:
        yield partial
        old = partial_path(path)
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, old)
        try:
            os.replace(partial, path)
        except OSError:
            if old.exists():
                os.replace(old, path)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def split_paths(text: str) -> list[str]:
    """Returns the paths in a text, which commas separate. The path of an existing file or folder may contain commas."""
    parts, paths, first = text.split(","), [], 0
    while first < len(parts):
        path, end = parts[first].strip(), first + 1
        for last in range(first, len(parts)):
            joined = ",".join(parts[first : last + 1])
            if len(joined) > _MAX_PATH:
                break
            if os.path.exists(os.path.expanduser(joined)):
                path, end = joined, last + 1
        paths.append(path)
        first = end
    return paths


def absolute_paths(text: str) -> str:
    """Returns paths that commas separate as absolute ones, in which "~" is the home directory."""
    return ",".join(str(Path(path).expanduser().absolute()) for path in split_paths(text))


def is_pattern(path: Path) -> bool:
    """Returns whether TensorFlow would read the path of a checkpoint as a pattern that does not match itself."""
    return re.search(r"[][\\]", str(path)) is not None


@contextlib.contextmanager
def without_patterns(path: Path) -> Iterator[str]:
    """Yields a name of a checkpoint under which TensorFlow finds it, whatever the characters in its folder's path.

    TensorFlow matches the path of a checkpoint that it reads as a pattern, so it would not find "lr=[0.1]/ckpt-10".
    """
    path = Path(path)
    if not is_pattern(path):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def partial_path(path: Path) -> Path:
    """Returns a unique path beside `path` for a temporary file."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.{INCOMPLETE}")


def growing_path(path: Path) -> Path:
    """Returns the path beside `path` of the file that is appended to until it is complete."""
    return path.with_name(f"{path.name}.{INCOMPLETE}")


def progress_path(path: Path) -> Path:
    """Returns the path beside `path` of the file that records the progress of writing it."""
    return path.with_name(f"{path.name}.progress")


def check_output(path: Path, what: str) -> None:
    """Checks that `path` can be written; `what` names it in messages: "--decode_to_file=out.txt"."""
    if not path.name or path.is_dir():
        raise UserError(f"{what} is a directory; pass a file name")
    if not path.parent.is_dir():
        raise UserError(f"{what}: there is no folder {path.parent}; create it first")


def check_outputs(outputs: Mapping[str, Path], inputs: Mapping[str, Path]) -> None:
    """Checks that outputs can be written and that neither they nor their partial files overwrite another file.

    The keys name the paths in a UserError: flags, or "standard input". Links to the same file are recognized. A device
    or a pipe may occur several times.
    """
    before = dict(inputs)
    for flag, path in outputs.items():
        check_output(path, f"{flag}={path}")
        for other_flag, other in before.items():
            if is_same_file(path, other):
                raise UserError(f"{flag}={path} is the same file as {other_flag}; use another name")
            if _grows_over(path, other) or (other_flag in outputs and _grows_over(other, path)):
                raise UserError(f"{flag}={path} and {other_flag}={other}: one is the other's partial file; rename one")
        before[flag] = path


def _grows_over(path: Path, other: Path) -> bool:
    return any(is_same_file(beside, other) for beside in (growing_path(path), progress_path(path)))


def is_same_file(path: Path, other: Path) -> bool:
    """Returns whether writing to `path` would overwrite `other`; False for devices and pipes."""
    if path.exists() and other.exists():
        return path.is_file() and os.path.samefile(path, other)
    return path.resolve() == other.resolve()


def write_text(path: Path, text: str) -> None:
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def file_sha256(path: Path) -> str:
    """Returns the SHA-256 checksum of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def as_json(value: object) -> str:
    """Returns indented JSON in which null replaces non-finite numbers, which JSON does not support."""
    return json.dumps(none_if_nonfinite(value), ensure_ascii=False, indent=1, allow_nan=False)


def none_if_nonfinite(value: object) -> object:
    """Returns a value in which None replaces all non-finite numbers, nested ones included."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: none_if_nonfinite(each) for name, each in value.items()}
    return [none_if_nonfinite(each) for each in value] if isinstance(value, list | tuple) else value


def one_line(text: str) -> str:
    """Replaces line breaks in an output with spaces; vocabularies with byte tokens can produce line breaks.

    Text files have one line per output. `read_lines`, which reads them, does not split at other characters, such as
    U+0085 or U+2028.
    """
    return text.replace("\r", " ").replace("\n", " ")


def encodable(text: str) -> str:
    """Replaces lone surrogates, which JSON can hold but UTF-8 cannot, with "?"."""
    return text.encode("utf-8", errors="replace").decode()
