"""Opens models for decoding: those of run directories, and exports; CTranslate2 models without TensorFlow."""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import Vocabulary, open_vocabulary
from t2t_lite.decoding.ctranslate2_engine import CTranslate2Engine
from t2t_lite.decoding.engine import LEARNED_POSITIONS, Engine
from t2t_lite.decoding.export_dir import MANIFEST, ExportDir, check_loadable, read_export, warn_of_version
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256
from t2t_lite.options import SettingValue
from t2t_lite.runs.checkpoint_files import INDEX
from t2t_lite.runs.run_dir import RunDir, open_run_dir, run_files
from t2t_lite.runs.selection import Selection, names_one_file, select
from t2t_lite.runs.tuned_settings import search_settings
from t2t_lite.system.machine import warn_if_unused
from t2t_lite.system.tensorflow import load_tensorflow

if TYPE_CHECKING:
    import keras

    from t2t_lite.models.base import Seq2SeqModel


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """A model that is chosen but not loaded yet, see `open_model`.

    It comes from a run directory, from several, which form an ensemble, or from an export. A run that CTranslate2
    decodes has an export, too, see `exported_run`.
    """

    where: str  # for messages
    settings: DecodeHParams
    problem: str  # its name
    has_inputs: bool  # see `Problem`
    writes_trees: bool
    source_language: str  # BCP 47; "": unknown
    target_language: str
    run_dirs: tuple[RunDir, ...] = ()
    selections: tuple[Selection, ...] = ()  # the checkpoint of each run
    export: ExportDir | None = None
    # What the user should know about the checkpoints and the tuned settings; () once it was shown.
    checkpoint_remarks: tuple[str, ...] = ()
    settings_remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.export is None:
            return ", ".join(map(str, self.selections))
        return f"{self.export.path} ({self.checkpoint}, {self.engine})"

    @property
    def remarks(self) -> tuple[str, ...]:
        """All remarks; `load` shows them."""
        return *self.checkpoint_remarks, *self.settings_remarks

    @property
    def run_dir(self) -> RunDir:
        """The run directory, or the first of them."""
        return self.run_dirs[0]

    @property
    def selection(self) -> Selection:
        """The checkpoint of `run_dir`."""
        return self.selections[0]

    @property
    def engine(self) -> str:
        """The name of the engine in `ENGINES`."""
        return "ctranslate2" if self.export is not None and self.export.format == "ctranslate2" else "tensorflow"

    @property
    def checkpoint(self) -> str:
        """The name of the checkpoint, or of that of the first run."""
        return self.selection.path.name if self.export is None else self.export.content["checkpoint"]["name"]

    @property
    def checkpoints(self) -> list[Path]:
        """The checkpoints that `load` reads, without suffix."""
        return [] if self.export is not None else [selection.path for selection in self.selections]

    @property
    def files(self) -> list[Path]:
        """The files of the model, which outputs must not overwrite."""
        of_runs = [file for run_dir in self.run_dirs for file in run_files(run_dir.path)]
        return [*(() if self.export is None else self.export.files), *of_runs]

    @functools.cached_property
    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The vocabularies of the targets and of the inputs; the same object if both sides share one."""
        folder = self.run_dir if self.export is None else self.export
        targets = open_vocabulary(folder.vocabulary)
        is_shared = folder.inputs_vocabulary == folder.vocabulary
        return targets, targets if is_shared else open_vocabulary(folder.inputs_vocabulary)

    def fingerprint(self) -> list[str]:
        """Returns checksums that are equal, on every machine, for the same weights."""
        if self.export is not None and not self.selections:
            return [file_sha256(self.export.path / MANIFEST)]
        # An index contains the checksums of the weights.
        return [file_sha256(Path(f"{selection.path}{INDEX}")) for selection in self.selections]

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments with which `open_model` chooses the same model and settings in another process."""
        if self.export is not None:
            return {"export_dir": self.export.path, "decode_hparams": vars(self.settings)}
        paths = [run_dir.path for run_dir in self.run_dirs]
        return {"output_dir": paths, "checkpoint_path": self.checkpoints, "decode_hparams": vars(self.settings)}

    def load(self, options: EngineOptions) -> Engine:
        """Loads the model. `options.warn` first receives the remarks.

        Raises:
          UserError: if a checkpoint does not fit, a file of the export is missing or changed, or the export is a
            SavedModel.
        """
        for line in self.remarks:
            options.warn(line)
        export = self.export
        if export is None:
            load_tensorflow()
            from t2t_lite.decoding.tensorflow_engine import Ensemble, TensorFlowEngine

            warn_if_unused(options.warn)
            # Ignores the training precision: weights are float32, and results should not depend on the machine.
            models = self.models(self.settings.precision)
            for model in models:
                model.freeze()
            model = models[0] if len(models) == 1 else Ensemble(models)
            return TensorFlowEngine(model, options, self.checkpoints)
        check_loadable(export)
        warn_of_version(export, options.warn)
        content = export.content
        if export.format == "ctranslate2":
            is_learned = content["hparams"].get("position_encoding") == "learned"
            return CTranslate2Engine(
                export.path,
                *self.vocabularies,
                content["max_positions"],
                LEARNED_POSITIONS if is_learned else "the limit of the export",
                content["alignment_layer"],
                options,
                digest=content["files"]["model.bin"]["sha256"],
                quantization=content.get("quantization"),
                source_end_symbol=content["hparams"].get("source_end_symbol", True),
            )
        load_tensorflow()
        from t2t_lite.decoding.tensorflow_engine import keras_engine

        return keras_engine(export, self.vocabularies, self.settings, options)

    def models(self, precision: str | None = None) -> "list[Seq2SeqModel]":
        """Returns the model of each run with its weights. None: in the precision of its training."""
        targets, inputs = self.vocabularies
        load_tensorflow()
        from t2t_lite.decoding.tensorflow_engine import restored_model

        return [
            restored_model(
                run_dir.hparams.replace(precision=precision or run_dir.hparams.precision),
                targets.size,
                inputs.size,
                selection.path,
                run_dir.alignment_layer,
            )
            for run_dir, selection in zip(self.run_dirs, self.selections)
        ]


def open_model(
    output_dir: str | PathLike | Sequence[str | PathLike] = (),
    checkpoint_path: str | PathLike | Sequence[Path] | None = None,
    decode_hparams: str | Mapping[str, SettingValue] | None = "",
    *,
    export_dir: str | PathLike | None = None,
    ignored: Collection[str] = (),
) -> ModelSource:
    """Chooses a model, its checkpoint and its search settings, without TensorFlow.

    Args:
      output_dir: a run directory, or several with the same vocabularies.
      checkpoint_path: see `select`; or the path of a checkpoint for each run.
      decode_hparams: changes to the settings of the run, see `search_settings`, or of the export. None: the settings of
        a run's problem, even if others were tuned, for those who do not search.
      export_dir: an export, instead of runs.
      ignored: tuned settings to leave out.

    Raises:
      UserError: if the run or export is unusable, there is no such checkpoint, or the vocabularies differ.
    """
    if export_dir is not None:
        export = read_export(export_dir)
        return ModelSource(
            where=str(export.path),
            settings=export.decode_hparams.changed(decode_hparams),
            problem=export.content["problem"],
            has_inputs=export.content["has_inputs"],
            writes_trees=export.content["writes_trees"],
            source_language=export.content.get("source_language") or "",
            target_language=export.content.get("output_language") or "",
            export=export,
        )
    given = [output_dir] if isinstance(output_dir, str | PathLike) else output_dir
    run_dirs = [open_run_dir(Path(path)) for path in given]
    if isinstance(checkpoint_path, str | PathLike | None):
        if names_one_file(checkpoint_path) and len(run_dirs) > 1:
            raise UserError(
                f"`checkpoint_path={checkpoint_path}` works with one run directory, not with {len(run_dirs)}; "
                f"use best, last or average"
            )
        asked: Sequence[str | PathLike | None] = [checkpoint_path] * len(run_dirs)
    else:
        asked = checkpoint_path
    of_checkpoints: list[str] = []
    of_settings: list[str] = []
    selections = [select(run.path, each, of_checkpoints.append) for run, each in zip(run_dirs, asked, strict=True)]
    first, problem = run_dirs[0], run_dirs[0].problem
    settings = problem.decode_hparams
    if decode_hparams is not None:
        settings = search_settings(first.path, settings, decode_hparams, of_settings.append, ignored)
    for other in run_dirs[1:]:
        for mine, its in ((first.inputs_vocabulary, other.inputs_vocabulary), (first.vocabulary, other.vocabulary)):
            if file_sha256(mine) != file_sha256(its):
                raise UserError(f"{mine} and {its} differ; use models with the same vocabulary")
    return ModelSource(
        where=",".join(map(str, given)),
        settings=settings,
        problem=problem.name,
        has_inputs=problem.has_inputs,
        writes_trees=problem.writes_trees,
        source_language=problem.in_direction((problem.source_language, problem.target_language))[0],
        target_language=problem.output_language,
        run_dirs=tuple(run_dirs),
        selections=tuple(selections),
        checkpoint_remarks=tuple(of_checkpoints),
        settings_remarks=tuple(of_settings),
    )


def load_model(path: str | PathLike, checkpoint_path: str | PathLike | None = None) -> "keras.Model":
    """Loads a model that `model.save` wrote, or the model of a run directory with its weights.

    Args:
      path: a `.keras` file or a run directory.
      checkpoint_path: which checkpoint: "best", "last", "average", "ckpt-2000" or a path; None: the average if there is
        one, else the last checkpoint.

    Returns:
      a built Keras model. The model of a run directory has the precision of its training.

    Raises:
      UserError: if the file or run directory does not exist or cannot be read.
    """
    path = Path(path)
    if path.suffix == ".keras":
        from t2t_lite.models.building import load_model_file

        return load_model_file(path)
    source = open_model(path, checkpoint_path, decode_hparams=None)
    for line in source.remarks:
        LOG.warning(line)
    return source.models()[0]
