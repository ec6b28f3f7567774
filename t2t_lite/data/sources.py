"""Finds the files a problem reads, or fetches them, and checks them either way."""

import os
from pathlib import Path

from t2t_lite.data.problem import Problem, Source
from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of


def find_or_fetch(problem: Problem, tmp_dir: Path) -> dict[str, Path]:
    """Returns the path of each of the problem's sources, by name. Files in place are used and never written to.

    Raises:
      UserError: if a file has the wrong checksum or cannot be fetched.
    """
    return {source.name: _find_or_fetch(source, tmp_dir) for source in problem.sources}


def _find_or_fetch(source: Source, tmp_dir: Path) -> Path:
    path = tmp_dir / source.name
    if not path.exists():
        _fetch(source, path)
    elif sha256_of(path) != source.sha256:
        raise UserError(
            f"{path} is not the published {source.name} (its SHA-256 differs); remove it and it is fetched again"
        )
    return path


def _fetch(source: Source, path: Path) -> None:
    import keras  # here, because files that are in place need no download

    part_name = source.name + ".incomplete"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = keras.utils.get_file(
            part_name, source.url, file_hash=source.sha256, cache_dir=str(path.parent), cache_subdir=""
        )
    except Exception as error:  # urllib, checksum and permission errors all mean the same to the user
        path.with_name(part_name).unlink(missing_ok=True)
        reason = str(error).split("\n")[0]
        raise UserError(
            f"cannot fetch {source.name} from {source.url} to {path.parent} ({reason}); "
            f"place the file in --tmp_dir by hand"
        ) from error
    os.replace(part, path)
