"""The search settings tuned for a run, stored in decode_hparams.json in its directory; they are the run's defaults."""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.config import DecodeHParams
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.files import write_text
from t2t_lite.options import SettingValue

FILE = "decode_hparams.json"
ALPHA, BEAM_SIZE = "alpha", "beam_size"  # the settings that --tune tries


class TunedSettings(NamedTuple):
    settings: dict[str, Any]  # the tuned settings by name
    checkpoint: str = ""  # the name of the checkpoint used for tuning; "": unknown

    def only(self, names: Collection[str]) -> "TunedSettings":
        return self._replace(settings={name: value for name, value in self.settings.items() if name in names})

    def __str__(self) -> str:
        return ", ".join(
            f"{name}={value:g}" if type(value) is float else f"{name}={value}" for name, value in self.settings.items()
        )


def search_settings(
    path: Path,
    usual: DecodeHParams,
    changes: str | Mapping[str, SettingValue] | None = "",
    warn: Callable[[str], None] = LOG.warning,
    ignored: Collection[str] = (),
) -> DecodeHParams:
    """Returns a run's search settings: tuned settings override the problem's, and `changes` override both.

    `usual` are the settings of the problem. `ignored` names tuned settings to leave out.
    """
    tuned = tuned_settings(path)
    tuned = tuned.only(tuned.settings.keys() - set(ignored))
    try:
        settings = usual.replace(**tuned.settings)
    except UserError as error:  # the problem's settings have changed since the tuning
        raise UserError(f"{Path(path) / FILE}: {error}; remove it with t2t-lite-eval --tune=forget") from error
    settings = settings.changed(changes)
    names = [part.partition("=")[0].strip() for part in changes.split(",")] if isinstance(changes, str) else changes
    used = tuned.only(tuned.settings.keys() - {DecodeHParams.current_name(name) for name in names or ()})
    if used.settings:
        of_checkpoint = f" with {used.checkpoint}" if used.checkpoint else ""
        verb = "was" if len(used.settings) == 1 else "were"
        warn(f"{used} {verb} tuned on dev{of_checkpoint} ({Path(path) / FILE})")
    return settings


def tuned_settings(path: Path) -> TunedSettings:
    """Returns the settings tuned for a run; none if it has no decode_hparams.json."""
    file = Path(path) / FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        settings = dict(content["settings"])
        DecodeHParams().replace(**settings)
        return TunedSettings(settings, str(content.get("checkpoint", "")))
    except FileNotFoundError:
        return TunedSettings({})
    except (ValueError, TypeError, KeyError, AttributeError, UserError) as error:
        raise UserError(f"{file} is damaged ({error}); remove it with t2t-lite-eval --tune=forget") from error


def remember(path: Path, tuned: TunedSettings, about: Mapping[str, Any]) -> Path:
    """Writes decode_hparams.json and returns its path; `about` is JSON that records how the settings were found."""
    file = Path(path) / FILE
    write_text(file, json.dumps({**tuned._asdict(), **about}, indent=2) + "\n")
    return file


def forget(path: Path) -> bool:
    file = Path(path) / FILE
    existed = file.exists()
    file.unlink(missing_ok=True)
    return existed
