"""Writing files so that a reader, or a restarted run, never sees half of one."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from t2t_lite.errors import UserError

INCOMPLETE = ".incomplete"


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Gives a name beside `path` to write to; the file appears under `path` when the block ends without an error.

    Raises:
      UserError: if `path` is a directory.
    """
    if path.is_dir():
        raise UserError(f"{path} is a directory; give the name of a file")
    if path.exists() and not path.is_file():
        yield path  # a device or a pipe, such as /dev/null, is written to as it is
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + INCOMPLETE)
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


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
