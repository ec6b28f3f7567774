"""Finds missing packages and the command that installs them into this environment."""

import importlib.util
import json
import re
import shlex
import shutil
import sys
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from t2t_lite.errors import UserError

_DISTRIBUTION = "t2t-lite"
# Modules of the plain install that a serving install leaves out (bin/build), with the names of their packages.
_LEFT_OUT = {
    "tensorflow": "TensorFlow",
    "tensorflow_text": "tensorflow-text",
    "tensorflow_datasets": "tensorflow-datasets",
    "keras": "Keras",
    "tensorboard": "TensorBoard",
    "scipy": "SciPy",
    "pyarrow": "PyArrow",
}


def check_installed(what: str, modules: Mapping[str, str], extra: str, omit: str = "") -> None:
    """Checks that packages are installed, given by module, which `extra` includes; "": the plain install.

    `what` needs them, such as "a plot"; `omit` is the argument that the user can leave out instead, if any.
    """
    if missing := [name for module, name in modules.items() if importlib.util.find_spec(module) is None]:
        advice = f", or omit `{omit}`" if omit else ""
        raise UserError(f"{what} needs {', '.join(missing)}; run {install_command(extra)}{advice}")


def missing_package(error: ModuleNotFoundError) -> UserError | None:
    """Returns the error to show if a serving install leaves out the missing module; None for other modules."""
    name = _LEFT_OUT.get((error.name or "").partition(".")[0])
    return UserError(f"this needs {name}; run {install_command('')}") if name else None


def install_command(extra: str) -> str:
    """Returns the command that installs an extra in this package's environment; "": the plain install.

    The command names the wheel or checkout that this package was installed from (PEP 610). If that is gone or unknown,
    or if an extra is added to a serving install, it names the missing packages instead. If this package is imported
    without being installed, it is the command of docs/install.md. It never names this package's own requirement, such
    as t2t-lite[plot], because the package is on no index.
    """
    origin, is_editable = _origin()
    if origin is not None and (not extra or importlib.util.find_spec("tensorflow") is not None):
        what = [*(["-e"] if is_editable else []), f"{origin}[{extra}]" if extra else str(origin)]
    elif (requirements := _requirements(extra)) is None:
        what = ["-e", f".[{extra}]" if extra else "."]
    else:
        what = [each for each in requirements if not _is_installed(each)] or requirements
    # "pip" if that command belongs to this environment, else the Python of this environment with -m pip.
    found = shutil.which("pip")
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    pip = "pip" if is_ours else f"{shlex.quote(sys.executable)} -m pip"
    quoted = [word if re.fullmatch(r"[\w./-]+", word) else shlex.quote(word) for word in what]
    return " ".join([pip, "install", *quoted])


def _origin() -> tuple[Path | None, bool]:
    """Returns the wheel or checkout that this package was installed from, or None, and whether it is editable."""
    from importlib import metadata  # 15 ms, so only for a message

    # In a checkout, setuptools' metadata may come first, but only pip's metadata has the origin.
    known = [text for each in metadata.distributions(name=_DISTRIBUTION) if (text := each.read_text("direct_url.json"))]
    try:
        about = json.loads(known[0]) if known else {}
    except ValueError:
        return None, False
    url = urllib.parse.urlsplit(about.get("url", ""))
    path = Path(urllib.parse.unquote(url.path))
    if url.scheme != "file" or not path.exists():
        return None, False
    return path, bool(about.get("dir_info", {}).get("editable"))


def _requirements(extra: str) -> list[str] | None:
    """Returns the requirements of the package, or of an extra, such as "jinja2<4,>=3.1.4"; None if they are unknown."""
    from importlib import metadata

    try:
        entries = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return None
    wanted = f'extra == "{extra}"' if extra else ""
    split = (entry.partition(";") for entry in entries)
    return [requirement.strip() for requirement, _, marker in split if marker.strip() == wanted]


def _is_installed(requirement: str) -> bool:
    from importlib import metadata

    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return any(metadata.distributions(name=match[0] if match else requirement))
