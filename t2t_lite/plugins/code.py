"""Computes checksums of plug-in code, which tell whether results stored earlier are still valid."""

import hashlib
import importlib.util
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from t2t_lite.files import file_sha256
from t2t_lite.plugins import GROUP
from t2t_lite.registry import Origin, Registry


def code_digest(names: Iterable[tuple[Registry, str]]) -> str:
    """Returns a checksum of the code that registered `names`; "" if all of it is built in.

    It covers all Python files in a plug-in's folder or package, because the plug-in may import any of them. For names
    registered by a program, it covers the file that registers them. It does not cover code that a plug-in imports from
    elsewhere. If a file has changed since it was loaded, this process still runs the old code, which no file contains,
    so the checksum is random and matches no other. So is the checksum of code without a file, such as in a notebook.

    `names` are pairs of a registry and a name registered there.
    """
    since: dict[Origin, float] = {}  # time of each origin's first registration
    for registry, name in names:
        if source := registry.source(name):
            since[source.origin] = min(source.since, since.get(source.origin, source.since))
    digests = sorted(_digest(origin, seconds) for origin, seconds in since.items())
    return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else ""


def _digest(origin: Origin, since: float) -> str:
    files = [(root, path) for root in _roots(origin) for path in ([root] if root.is_file() else _python_files(root))]
    if not files or any(path.stat().st_mtime > since for _, path in files):
        return secrets.token_hex()
    lines = [f"{path.relative_to(root.parent)} {file_sha256(path)}\n" for root, path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _roots(origin: Origin) -> list[Path]:
    if origin.kind != "package":
        return [Path(origin.where)]
    from importlib import metadata

    modules = {
        entry_point.module.split(".")[0]
        for entry_point in metadata.entry_points(group=GROUP)
        if entry_point.dist and entry_point.dist.name == origin.where
    }
    specs = [importlib.util.find_spec(module) for module in sorted(modules)]
    places = [spec.submodule_search_locations or [spec.origin or ""] for spec in specs if spec]
    return [Path(place) for each in places for place in each if place]


def _python_files(folder: Path) -> Iterator[Path]:
    """Yields the Python files below a folder, except those in hidden folders and virtual environments."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and not Path(here, name, "pyvenv.cfg").exists()
        )
        yield from (Path(here, name) for name in sorted(files) if name.endswith(".py"))
