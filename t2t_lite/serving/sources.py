"""The sources of served models: exports and run directories."""

import abc
import os
from pathlib import Path

from t2t_lite.decoding.loading import ModelSource, open_model
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.translator import Translator
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.exporting.export import exported_run
from t2t_lite.system.tensorflow import import_for_searches


class Source(abc.ABC):
    """A model on disk: its directory, and changes to its search settings.

    `num_threads` is the number of parallel batches; None: one per core, or one with TensorFlow on a GPU.
    """

    def __init__(self, path: str | os.PathLike, decode_hparams: str = "", num_threads: int | None = None) -> None:
        self.path = Path(path)
        self.decode_hparams, self.num_threads = decode_hparams, num_threads

    @property
    def name(self) -> str:
        return self.path.absolute().name

    @abc.abstractmethod
    def open(self) -> ModelSource:
        """Returns the current model without loading it. Raises UserError if it cannot be served."""

    def load(self, model: ModelSource) -> Translator:
        """Loads what `open` returned. Raises UserError if it is unusable."""
        if model.engine == "tensorflow":
            import_for_searches()
        # CTranslate2 uses its own threads. With TensorFlow, each batch is searched in the thread that calls.
        threads = self.num_threads if model.engine == "ctranslate2" else 1
        return Translator.of(model, EngineOptions(_warn, num_threads=threads))


class ExportSource(Source):
    def open(self) -> ModelSource:
        model = open_model(export_dir=self.path, decode_hparams=self.decode_hparams)
        if model.export is not None and model.export.format == "saved_model":
            raise UserError(
                f"{self.path} is a SavedModel, which is for TensorFlow Serving; export the run with "
                f"--format=ctranslate2 or keras"
            )
        return model


class RunSource(Source):
    """A run directory.

    `checkpoint_path` works as in the decoder; "": the averaged checkpoint if there is one, else the last. For the
    engine "ctranslate2", the run is exported first.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        decode_hparams: str = "",
        checkpoint_path: str = "",
        engine: str = "tensorflow",
        num_threads: int | None = None,
    ) -> None:
        super().__init__(path, decode_hparams, num_threads)
        self._checkpoint_path, self._engine = checkpoint_path, engine

    def open(self) -> ModelSource:
        return open_model(self.path, self._checkpoint_path, self.decode_hparams)

    def load(self, model: ModelSource) -> Translator:
        return super().load(exported_run(model) if self._engine == "ctranslate2" else model)


def _warn(line: str) -> None:
    """Logs a message about a model. Omits messages about texts, because their line numbers refer to a batch."""
    if not line.startswith(("line ", "the prefix of line ")):
        LOG.warning("%s", line)
