"""Search settings that were tuned for a run. decode_hparams.json in the run directory makes them its defaults."""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from t2t_lite.config import DecodeHParams
from t2t_lite.errors import UserError
from t2t_lite.files import write_text
from t2t_lite.log import LOG
from t2t_lite.settings import SettingValue

FILE = "decode_hparams.json"


def search_settings(
    path: Path,
    usual: DecodeHParams,
    changes: str | Mapping[str, SettingValue] | None = "",
    warn: Callable[[str], None] = LOG.warning,
    ignored: Collection[str] = (),
) -> DecodeHParams:
    """Returns the search settings of a run: those of its problem, changed by those that were tuned, then by `changes`.

    Args:
      path: the run directory.
      usual: the settings of the problem.
      changes: changes of the user, as a dict or "name=value,..."; they win.
      warn: receives a line if tuned settings are used.
      ignored: names of tuned settings that do not count.

    Raises:
      UserError: if a change is invalid, or decode_hparams.json is damaged.
    """
    tuned = {name: value for name, value in tuned_settings(path).items() if name not in ignored}
    settings = _changed(path, usual, tuned).changed(changes)
    given = _names(changes)
    if used := {name: value for name, value in tuned.items() if name not in given}:
        values = ", ".join(f"{name}={value:g}" for name, value in used.items())
        warn(f"{values} {'was' if len(used) == 1 else 'were'} tuned on dev ({Path(path) / FILE})")
    return settings


def tuned_settings(path: Path) -> dict[str, Any]:
    """Returns the settings that were tuned for a run, by name; {} if there are none.

    Raises:
      UserError: if decode_hparams.json is damaged.
    """
    file = Path(path) / FILE
    try:
        settings = dict(json.loads(file.read_text(encoding="utf-8"))["settings"])
        DecodeHParams().replace(**settings)
        return settings
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError, UserError) as error:
        raise UserError(f"{file} is damaged ({error}); remove it with t2t-lite-eval --tune=forget") from error


def remember(path: Path, settings: Mapping[str, SettingValue], about: Mapping[str, Any]) -> Path:
    """Writes decode_hparams.json and returns its path.

    Args:
      path: the run directory.
      settings: the tuned settings; they replace earlier ones.
      about: how they were found, for readers.
    """
    file = Path(path) / FILE
    write_text(file, json.dumps({"settings": dict(settings), **about}, indent=2) + "\n")
    return file


def forget(path: Path) -> bool:
    """Removes decode_hparams.json, and returns whether there was one."""
    file = Path(path) / FILE
    existed = file.exists()
    file.unlink(missing_ok=True)
    return existed


def _changed(path: Path, usual: DecodeHParams, tuned: Mapping[str, Any]) -> DecodeHParams:
    try:
        return usual.replace(**tuned)
    except UserError as error:  # the settings of the problem have changed since
        raise UserError(f"{Path(path) / FILE}: {error}; remove it with t2t-lite-eval --tune=forget") from error


def _names(changes: str | Mapping[str, SettingValue] | None) -> set[str]:
    """Returns the names of the settings that a user gives."""
    names = [part.partition("=")[0].strip() for part in changes.split(",")] if isinstance(changes, str) else changes
    return {DecodeHParams.current_name(name) for name in names or ()}
