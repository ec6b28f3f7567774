"""Takes a model from an export, and writes a model that was trained under JAX as an export."""

import shutil
from pathlib import Path

from dev.accelerator.cases import CURVES
from t2t_lite.config import HParams
from t2t_lite.decoding.export_dir import MODEL_CARD, open_keras_export, write_export
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import load_model_file, make_model
from t2t_lite.registry import HPARAMS

_MODEL = "model.keras"


class StartingModel:
    """Makes models that all have the same initial weights.

    Args:
      hparams_set: the set of a new model.
      vocab_size: the vocabulary size of a new model.
      export_dir: an export whose model is used instead; None: a new model.

    Raises:
      UserError: if the export is none in the format keras, or is damaged.
    """

    def __init__(self, hparams_set: str, vocab_size: int, export_dir: Path | None = None) -> None:
        self._export = open_keras_export(export_dir) if export_dir else None
        if self._export is not None:
            model = load_model_file(self._export.path / _MODEL)
            assert isinstance(model, Seq2SeqModel)
            self._hparams: HParams = model.hparams
        else:
            self._hparams = HPARAMS[hparams_set]().replace(**CURVES)
            model = make_model(self._hparams, vocab_size)
        self._sizes = model.vocab_size, model.inputs_vocab_size
        self._weights = model.get_weights()

    def model(self, precision: str) -> Seq2SeqModel:
        """Returns a model in the given precision, a value of HParams.precision."""
        model = make_model(self._hparams.replace(precision=precision), *self._sizes)
        model.set_weights(self._weights)
        return model

    def export(self, model: Seq2SeqModel, steps: int, path: Path) -> None:
        """Writes a copy of the export with another model, which has been trained for a number of steps since."""
        assert self._export is not None
        given, content = self._export.path, dict(self._export.content)
        step = content["checkpoint"]["step"] + steps
        content["checkpoint"] = {"name": f"ckpt-{step}", "step": step, "members": [], "sha256": ""}

        def write(folder: Path) -> dict:
            for name in content.pop("files"):
                if name not in (_MODEL, MODEL_CARD):  # its scores are those of the old weights
                    shutil.copyfile(given / name, folder / name)
            model.save(folder / _MODEL)
            return content

        write_export(path, write)
