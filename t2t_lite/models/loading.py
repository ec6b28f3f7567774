"""Loads models saved by `model.save`."""

import zipfile
from pathlib import Path

import keras

import t2t_lite.models  # noqa: F401  registers the classes
from t2t_lite.errors import UserError


def load_model_file(path: Path) -> keras.Model:
    """Returns the model in a `.keras` file.

    Raises:
      UserError: if the file does not exist or cannot be read.
    """
    if not path.is_file():
        raise UserError(f"no such file: {path}")
    try:
        model = keras.models.load_model(path)
    except (ValueError, TypeError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be loaded as a Keras model: {str(error).splitlines()[0]}") from error
    if not isinstance(model, keras.Model):
        raise UserError(f"{path} is not a Keras model")
    return model
