"""The sources of served models: exports and run directories."""

import abc
import os
from pathlib import Path
from typing import NamedTuple

from t2t_lite.decoding.export_dir import read_export
from t2t_lite.decoding.translator import Translator
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.exporting.export import exported_run
from t2t_lite.runs.run_dir import open_run_dir
from t2t_lite.runs.selection import select
from t2t_lite.runs.tuned_settings import search_settings
from t2t_lite.system.machine import keep_compiled, use_one_thread_per_operation
from t2t_lite.system.tensorflow import import_tensorflow


class About(NamedTuple):
    """The properties of a model that are known before loading it."""

    engine: str
    problem: str
    checkpoint: str
    writes_trees: bool
    source_language: str  # BCP 47; "": unknown
    target_language: str


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
    def about(self) -> About:
        """Returns the current properties of the model. Raises UserError if it cannot be served."""

    @abc.abstractmethod
    def load(self) -> Translator:
        """Loads the model. Raises UserError if it is unusable."""


class ExportSource(Source):
    def about(self) -> About:
        export = read_export(self.path)
        if export.format == "saved_model":
            raise UserError(
                f"{self.path} is a SavedModel, which is for TensorFlow Serving; export the run with "
                f"--format=ctranslate2 or keras"
            )
        content = export.content
        return About(
            "ctranslate2" if export.format == "ctranslate2" else "tensorflow",
            content["problem"],
            content["checkpoint"]["name"],
            content["writes_trees"],
            content.get("source_language") or "",
            content.get("output_language") or "",
        )

    def load(self) -> Translator:
        if self.about().engine == "tensorflow":
            _prepare_tensorflow()
        # CTranslate2 uses its own threads. With TensorFlow, each batch is searched in the thread that calls.
        threads = self.num_threads if self.about().engine == "ctranslate2" else 1
        return Translator.from_export(self.path, self.decode_hparams, _warn, num_threads=threads)


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
        self._checkpoint_path, self._engine = checkpoint_path or None, engine

    def about(self) -> About:
        problem = open_run_dir(self.path).problem
        checkpoint = select(self.path, self._checkpoint_path, warn=lambda line: None).path
        source, _ = problem.in_direction((problem.source_language, problem.target_language))
        return About(self._engine, problem.name, checkpoint.name, problem.writes_trees, source, problem.output_language)

    def load(self) -> Translator:
        if self._engine == "ctranslate2":
            problem = open_run_dir(self.path).problem
            settings = search_settings(self.path, problem.decode_hparams, self.decode_hparams)
            path = exported_run(self.path, self._checkpoint_path, settings)
            changes = ",".join(f"{name}={value}" for name, value in vars(settings).items() if value != "")
            return ExportSource(path, changes, self.num_threads).load()
        _prepare_tensorflow()
        return Translator.from_run_dir(self.path, self.decode_hparams, self._checkpoint_path, _warn, num_threads=1)


def _warn(line: str) -> None:
    """Logs a message about a model. Omits messages about texts, because their line numbers refer to a batch."""
    if not line.startswith(("line ", "the prefix of line ")):
        LOG.warning("%s", line)


def _prepare_tensorflow() -> None:
    keep_compiled()
    use_one_thread_per_operation()
    import_tensorflow()
