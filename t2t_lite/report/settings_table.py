"""Makes the table of settings: those of runs beside those of their hyperparameter sets."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite.config import AUTO_BATCH_BY, HParams
from t2t_lite.registry import HPARAMS
from t2t_lite.report.reading import StoredRun
from t2t_lite.report.values import text

# If a run differs from every set in more settings than this, none of them counts as its set.
_MOST_DIFFERENCES = 8
# Settings that users often change, so that differences do not count.
_OF_A_RUN = ("train_steps", "average_checkpoints", "batch_by")


class HParamSet(NamedTuple):
    """The hyperparameter set of a run."""

    name: str
    is_recorded: bool  # False: the run does not record its set; this is the nearest one
    values: Mapping[str, Any]
    parent: str  # the set that it derives from; "" if none
    of_parent: Mapping[str, Any]


class Cell(NamedTuple):
    """The value of a setting in a run."""

    value: str
    others: list[str]  # differing values in its set and the set's parent, such as "transformer_base: 512"


class Row(NamedTuple):
    """A setting in all runs."""

    name: str
    meaning: str
    cells: list[Cell]
    is_different: bool  # whether the runs, sets or parents differ


def nearest_set(run: StoredRun) -> HParamSet | None:
    """Returns a run's recorded hyperparameter set, else the nearest; None if it is not registered or none is near."""
    recorded = text(run.about.get("hparams_set"))
    if recorded:
        values = _values(recorded)
        return None if values is None else _set(recorded, True, values)
    if not run.settings:
        return None
    known = {name: values for name in HPARAMS if (values := _values(name)) is not None}
    distances = {name: len(_different(run.settings, values)) for name, values in known.items()}
    nearest = min(distances, key=lambda name: (distances[name], name), default="")
    return _set(nearest, False, known[nearest]) if distances.get(nearest, 99) <= _MOST_DIFFERENCES else None


def settings_rows(runs: Sequence[StoredRun], sets: Sequence[HParamSet | None]) -> list[Row]:
    """Returns the settings of all runs in the order of `HParams`; [] if none can be read."""
    usual = dataclasses.asdict(HParams())
    names = dict.fromkeys([*usual, *(name for run in runs for name in run.settings)])
    rows = []
    for name in names if any(run.settings for run in runs) else ():
        values = [text(run.settings.get(name, usual.get(name, ""))) if run.settings else "" for run in runs]
        cells = [Cell(value, _others(name, value, chosen)) for value, chosen in zip(values, sets, strict=True)]
        differs = len(set(values)) > 1 or any(cell.others for cell in cells)
        rows.append(Row(text(name), HParams.option(name).help if name in usual else "", cells, differs))
    return rows


def _others(name: str, value: str, chosen: HParamSet | None) -> list[str]:
    other_values: list[str] = []
    if not chosen or not value:
        return other_values
    for origin, values in ((chosen.name, chosen.values), (chosen.parent, chosen.of_parent)):
        if name in values and text(values[name]) not in (value, AUTO_BATCH_BY):
            other_values.append(f"{origin}: {text(values[name])}")
    return other_values


def _set(name: str, is_recorded: bool, values: Mapping[str, Any]) -> HParamSet:
    parent = HPARAMS.parent(name) or ""
    return HParamSet(name, is_recorded, values, parent, (_values(parent) if parent else None) or {})


def _values(name: str) -> dict[str, Any] | None:
    """Returns the settings in a set; None if the set is not registered or its code raises an error."""
    if name not in HPARAMS:
        return None
    try:
        return dataclasses.asdict(HPARAMS[name]())
    except Exception:  # plug-in code may raise anything
        return None


def _different(settings: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, value in values.items()
        if name not in _OF_A_RUN and text(settings.get(name, getattr(HParams, name, None))) != text(value)
    ]
