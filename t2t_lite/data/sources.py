"""Finds what a problem reads, or fetches it, and checks it either way."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from t2t_lite.data.problem import OwnFile, Problem, Source, TfdsSource
from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of


def find_or_fetch(problem: Problem, tmp_dir: Path) -> dict[str, Path]:
    """Returns the path of each of the problem's sources, by name. What is in place is used and never written to.

    Raises:
      UserError: if something is missing and cannot be fetched, or has the wrong checksum.
    """
    found = {}
    for source in problem.sources:
        if isinstance(source, TfdsSource):
            found |= _find_text_files(source, tmp_dir) or {source.name: _prepared(source, tmp_dir)}
        elif isinstance(source, OwnFile):
            if not source.path.is_file():
                raise UserError(f"no such file: {source.path}")
            found[source.name] = source.path
        else:
            found[source.name] = _find_or_fetch(source, tmp_dir)
    return found


def digests_of(files: Mapping[str, Path]) -> dict[str, str]:
    """Returns the SHA-256 of each source by its name; of a folder, that of all its files' names and checksums."""
    return {name: _digest_of(path) for name, path in files.items()}


def check_unchanged(files: Mapping[str, Path], recorded: Mapping[str, str], data_dir: Path) -> None:
    """Raises UserError if the data in `data_dir` was made from other sources than these."""
    found = digests_of(files)
    for name in sorted(found.keys() | recorded.keys()):
        if name not in found or name not in recorded:
            state = "was not" if name not in recorded else "was"
            raise UserError(f"the data in {data_dir} {state} made from {name}; use another --data_dir, or remove it")
        if found[name] != recorded[name]:
            raise UserError(
                f"{files[name]} is not what the data in {data_dir} was made from (its SHA-256 differs: it was changed "
                f"or cut short); put the old one back, or use another --data_dir"
            )


def _digest_of(path: Path) -> str:
    if not path.is_dir():
        return sha256_of(path)
    names = sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())
    listing = "".join(f"{sha256_of(path / name)}  {name}\n" for name in names)
    return hashlib.sha256(listing.encode()).hexdigest()


def _find_text_files(source: TfdsSource, tmp_dir: Path) -> dict[str, Path]:
    """Returns the text files that were placed instead of a data set, all or none."""
    found = {}
    for name in source.placed:
        for path in (tmp_dir / name, tmp_dir / f"{name}.gz"):
            if path.exists():
                found[name] = path
    if missing := [name for name in source.placed if name not in found and found]:
        raise UserError(f"{tmp_dir} holds {next(iter(found.values())).name}, but no {missing[0]} (or {missing[0]}.gz)")
    return found


def _prepared(source: TfdsSource, tmp_dir: Path) -> Path:
    from t2t_lite.data.tfds_source import find_or_prepare  # here, because files that are in place do not need it

    return find_or_prepare(source, tmp_dir)


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
