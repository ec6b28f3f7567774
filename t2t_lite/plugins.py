"""Loads all code that registers names: the built-in problems and hyperparameter sets, and plug-ins.

A plug-in is an installed package with an entry point in the group `t2t_lite.plugins`, or a user folder
(`--t2t_usr_dir`). In the library, only this module imports `problems/` and `hparams/`, and only on request.

The user trusts some folders of plug-ins; their code runs if a run directory names it. Checksums of plug-in code tell
whether results stored earlier are still valid.
"""

import hashlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import pkgutil
import re
import secrets
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, write_text
from t2t_lite.registry import REGISTRIES, Origin, Registry, registering

GROUP = "t2t_lite.plugins"

_loading_began = False
# Re-entrant, because modules may look up names while loading, which calls `load_all_once` again.
_loading = threading.RLock()


def load_all(usr_dir: str | None = None) -> None:
    """Imports the built-in modules, the installed plug-ins and a user folder. Needs no TensorFlow.

    Registries do the same, without a user folder, at the first unknown name. The error of a plug-in that cannot be
    imported has the whole traceback.
    """
    import importlib.metadata  # 15 ms, which --help of most commands does not need

    global _loading_began
    with _loading:
        _loading_began = True
        try:
            for package_name in ("t2t_lite.problems", "t2t_lite.hparams"):
                for module in pkgutil.iter_modules(importlib.import_module(package_name).__path__):
                    importlib.import_module(f"{package_name}.{module.name}")
            for entry_point in importlib.metadata.entry_points(group=GROUP):
                name = entry_point.dist.name if entry_point.dist else entry_point.value
                with registering(Origin("package", name)):
                    _import(entry_point.load, f"the plug-in {entry_point.value} of the package {name}")
        except BaseException:
            _loading_began = False
            raise
        if usr_dir:
            load_usr_dir(usr_dir)


def load_all_once() -> None:
    """Calls `load_all` without a user folder, unless this process has called it or is calling it."""
    with _loading:  # another thread may be loading
        if not _loading_began:
            load_all()


def load_usr_dir(usr_dir: str) -> None:
    """Imports a user folder: its __init__.py if it exists, else all its Python files."""
    folder = Path(usr_dir).expanduser().absolute()
    if not folder.is_dir():
        raise UserError(f"`t2t_usr_dir={usr_dir}` is not a folder; pass the folder with your plug-in")
    # A unique package name, so that the folder neither shadows nor is shadowed by an installed package.
    package = f"t2t_usr_dir_{re.sub(r'[^a-zA-Z0-9_]', '_', str(folder))}"
    if package in sys.modules:
        return
    init = folder / "__init__.py"
    if not (names := [path.stem for path in sorted(folder.glob("*.py"))]):
        raise UserError(f"`t2t_usr_dir={usr_dir}` has no Python file; pass the folder with your plug-in")

    def load() -> None:
        if init.exists():
            spec = importlib.util.spec_from_file_location(package, init, submodule_search_locations=[str(folder)])
            assert spec is not None and spec.loader is not None  # true for any .py file
            module = sys.modules[package] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return
        spec = importlib.machinery.ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules[package] = importlib.util.module_from_spec(spec)
        for name in names:
            importlib.import_module(f"{package}.{name}")

    before = [len(registry.names()) for registry in REGISTRIES]
    with registering(Origin("t2t_usr_dir", str(folder))):
        try:
            _import(load, f"`t2t_usr_dir={usr_dir}`")
        except UserError:
            sys.modules.pop(package, None)
            raise
    if before == [len(registry.names()) for registry in REGISTRIES]:
        raise UserError(
            f"`t2t_usr_dir={usr_dir}` registers nothing; register a problem, an hparam set, a model or the like in it"
        )


def _import(load: Callable[[], object], what: str) -> None:
    try:
        load()
    except UserError:
        raise
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        frame = traceback.extract_tb(error.__traceback__)[-1]
        if missing != "tensor2tensor":
            beside = Path(frame.filename).parent / missing
            if missing and (beside.is_dir() or beside.with_suffix(".py").exists()):
                raise UserError(
                    f"{what} cannot be imported: {frame.filename}, line {frame.lineno}, imports {missing}, a file "
                    f"beside it, as if it were installed; write: from . import {missing}"
                ) from error
            raise UserError(_with_traceback(what)) from error
        raise UserError(
            f"{what} was written for tensor2tensor ({frame.filename}, line {frame.lineno}), which does not run on "
            f"current TensorFlow. To port a problem, derive it from t2t_lite.data.problem.Problem, let "
            f"examples(split, files) yield Example(inputs, targets), and decorate it with @PROBLEMS.register; "
            f"see docs/data.md"
        ) from error
    except (Exception, SystemExit) as error:  # a plug-in's code may raise anything
        raise UserError(_with_traceback(what)) from error


def _with_traceback(what: str) -> str:
    return f"{what} cannot be imported:\n{traceback.format_exc().rstrip()}"


def trusted_list() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "t2t-lite" / "trusted_plugins.json"


def is_trusted(folder: Path) -> bool:
    """Returns whether the user trusts a plug-in's folder, so that its code runs if a run directory names it.

    Raises UserError if the list is damaged.
    """
    return str(Path(folder).resolve()) in _trusted_folders()


def trust(folder: Path) -> None:
    """Adds a folder to the list of trusted folders. Raises UserError if the list is damaged."""
    folders = sorted({*_trusted_folders(), str(Path(folder).resolve())})
    path = trusted_list()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(folders, indent=2) + "\n")


def _trusted_folders() -> list[str]:
    path = trusted_list()
    try:
        folders = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(folders, list):
            raise ValueError("not a list")
        return folders
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); it must be a JSON list of folders; fix or remove it") from error


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
