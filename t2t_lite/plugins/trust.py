"""Remembers the plug-in folders that the user trusts. Their code runs if a run directory names them."""

import json
import os
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.files import write_text


def trusted_list() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "t2t-lite" / "trusted_plugins.json"


def is_trusted(folder: Path) -> bool:
    """Returns whether the user trusts a folder. Raises UserError if the list is damaged."""
    return str(Path(folder).resolve()) in _read()


def trust(folder: Path) -> None:
    """Adds a folder to the list of trusted folders. Raises UserError if the list is damaged."""
    folders = sorted({*_read(), str(Path(folder).resolve())})
    path = trusted_list()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(folders, indent=2) + "\n")


def _read() -> list[str]:
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
