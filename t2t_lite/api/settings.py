"""Returns settings by the name of their hyperparameter set."""

from collections.abc import Mapping

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.registry import HPARAMS
from t2t_lite.settings import SettingValue


def get_hparams(hparams_set: str, **changes: SettingValue) -> HParams:
    """Returns the settings of a hyperparameter set.

    Args:
      hparams_set: its name, such as "transformer_base".
      changes: settings to change, such as filter_size=2048.

    Raises:
      UserError: if the set or a setting does not exist (the message suggests the nearest names), or a value is invalid.
    """
    return HPARAMS[hparams_set]().replace(**changes)


def resolve_hparams(
    hparams_set: str | None, hparams: HParams | Mapping[str, SettingValue] | str | None, model: str | None = None
) -> HParams:
    """Returns the settings of a hyperparameter set with the changes `hparams`; or `hparams`, if these are complete.

    Changes are a dict or "name=value,...", and may include settings that only `model` has. `model` replaces the model
    in the settings; None: keeps it. Raises UserError as `get_hparams` does, or if both a set and complete settings are
    given, or neither.
    """
    if isinstance(hparams, HParams):
        if hparams_set is not None:
            raise UserError("`hparams` is complete; remove `hparams_set`, or pass `hparams` as a dict of changes")
        return hparams.replace(model=model) if model else hparams
    if hparams_set is None:
        raise UserError("pass the name of an hparam set as `hparams_set`, or complete settings as `hparams`")
    chosen = get_hparams(hparams_set)
    return (chosen.replace(model=model) if model else chosen).changed(hparams)
