"""Exports trained models."""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import shutil
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.config import DecodeHParams
from t2t_lite.decoding.export_dir import MODEL_CARD, ExportDir, check_target, open_export, write_export
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.files import file_sha256, is_pattern
from t2t_lite.runs.checkpoint_files import INDEX
from t2t_lite.runs.tuned_settings import search_settings

if TYPE_CHECKING:
    from t2t_lite.models.base import Seq2SeqModel
    from t2t_lite.runs.run_dir import RunDir

_PACKAGES = {"saved_model": ("tensorflow", "tensorflow-text"), "ctranslate2": ("ctranslate2",), "keras": ("keras",)}


def export(
    output_dir: str | PathLike,
    export_dir: str | PathLike,
    *,
    warn: Callable[[str], None] = LOG.warning,
    **options: Any,
) -> ExportDir:
    """Exports a trained model, with its vocabularies and a model card. The directory is written atomically.

    Args:
      output_dir: the run directory.
      export_dir: the directory to write.
      warn: receives messages about the checkpoint and tuned settings.
      options: `ExportOptions`: format, quantization, checkpoint_path, decode_hparams, overwrite.

    Raises:
      UserError: if the run is unusable, the directory exists, or the format does not support the model or settings.
    """
    from t2t_lite.runs.run_dir import open_run_dir
    from t2t_lite.runs.selection import select

    checked = ExportOptions.of_keywords(options, export)
    export_dir = Path(export_dir).resolve()  # resolve links, so that writing replaces the target and not the link
    check_target(export_dir, checked.overwrite)
    if checked.format == "saved_model" and is_pattern(export_dir):
        raise UserError(
            f"`export_dir={export_dir}`: TensorFlow cannot load a SavedModel from this folder, because its path has a "
            f"bracket or a backslash; pass another one"
        )
    run_dir = open_run_dir(Path(output_dir))
    selection = select(run_dir.path, checked.checkpoint_path or None, warn)
    settings = search_settings(run_dir.path, run_dir.problem.decode_hparams, checked.decode_hparams, warn)
    return _Export(run_dir, selection.path, settings, checked.format, checked.quantization, export_dir).write()


def exported_run(
    output_dir: str | PathLike,
    checkpoint_path: str | PathLike | None,
    settings: DecodeHParams,
    warn: Callable[[str], None] = LOG.warning,
) -> Path:
    """Returns the path of a run's CTranslate2 export, in exports/ in the run directory. Writes it first if necessary.

    A new export stores `settings` as its search settings. See `export` for the other arguments. Raises UserError if the
    run is unusable, or CTranslate2 does not support its model.
    """
    from t2t_lite.runs.run_dir import open_run_dir
    from t2t_lite.runs.selection import select

    ExportOptions(format="ctranslate2")  # checks that CTranslate2 is installed
    checkpoint = select(Path(output_dir), checkpoint_path, warn).path
    path = Path(output_dir) / "exports" / f"ctranslate2.{checkpoint.name}"
    with contextlib.suppress(UserError):
        if open_export(path).content["checkpoint"].get("sha256") == _checkpoint_digest(checkpoint):
            return path
    warn(f"exporting {checkpoint} to {path}")
    _Export(open_run_dir(Path(output_dir)), checkpoint, settings, "ctranslate2", None, path).write()
    return path


def _checkpoint_digest(checkpoint: Path) -> str:
    return file_sha256(Path(f"{checkpoint}{INDEX}"))


@dataclasses.dataclass(frozen=True)
class _Export:
    """An export to write; see `export`."""

    run_dir: "RunDir"
    checkpoint: Path
    settings: DecodeHParams
    format: str
    quantization: str | None
    path: Path

    def write(self) -> ExportDir:
        """Writes the export and replaces an existing one."""
        from t2t_lite.system.tensorflow import tensorflow_job

        with tensorflow_job():
            return write_export(self.path, self._write_files)

    def _write_files(self, folder: Path) -> dict[str, Any]:
        """Writes all files except export.json. Returns the content of export.json without checksums."""
        from t2t_lite.data.vocab import open_vocabulary
        from t2t_lite.decoding.loading import restored_model
        from t2t_lite.evaluation.split_scores import stored_evaluations
        from t2t_lite.exporting.model_card import model_card

        run_dir = self.run_dir
        targets, inputs = open_vocabulary(run_dir.vocabulary), open_vocabulary(run_dir.inputs_vocabulary)
        # The weights are float32, whatever precision the training used.
        hparams = run_dir.hparams.replace(precision="float32")
        model = restored_model(hparams, targets.size, inputs.size, self.checkpoint, run_dir.alignment_layer)
        max_positions = model.max_positions
        if self.format == "ctranslate2":
            from t2t_lite.decoding.ctranslate2_engine import check_settings
            from t2t_lite.decoding.engine import Needs
            from t2t_lite.exporting import ctranslate2_model

            check_settings(self.settings.replace(only_trees=False), Needs())
            names = targets.tokens(), inputs.tokens()
            ctranslate2_model.write(model, *names, folder, self.quantization, targets.unknown_id)
            max_positions = max_positions or ctranslate2_model.POSITIONS
        elif self.format == "saved_model":
            from t2t_lite.exporting import saved_model

            saved_model.check(self.settings, run_dir.problem.has_inputs)
            saved_model.write(model, targets, inputs, self.settings, folder)
        else:
            model.save(folder / "model.keras")
        for path in dict.fromkeys((run_dir.vocabulary, run_dir.inputs_vocabulary)):
            shutil.copyfile(path, folder / path.name)
        alignment_layer = None
        with contextlib.suppress(UserError):  # a model without word alignments
            alignment_layer = model.alignment_layer
        packages = ("t2t-lite", *_PACKAGES[self.format])
        content = self._content(model) | {
            "format": self.format,
            "quantization": self.quantization,
            "max_positions": max_positions,
            "alignment_layer": alignment_layer,
            "versions": {package: importlib.metadata.version(package) for package in packages},
        }
        stored = [each for split in ("test", "dev") for each in stored_evaluations(run_dir, split, self.checkpoint)]
        scores = [each for each in stored if each.decode_hparams == vars(self.settings)]
        example = (scores[0].inputs or [""])[0] if scores else "..."
        (folder / MODEL_CARD).write_text(model_card(content, self.path.name, scores, example), encoding="utf-8")
        return content

    def _content(self, model: "Seq2SeqModel") -> dict[str, Any]:
        """Returns the part of export.json that does not depend on the format."""
        from t2t_lite.runs import checkpoints
        from t2t_lite.runs.checkpoint_files import checkpoint_step

        problem = self.run_dir.problem
        return {
            "run": self.run_dir.path.resolve().name,
            "problem": problem.name,
            "has_inputs": problem.has_inputs,
            "writes_trees": problem.writes_trees,
            "source_language": problem.in_direction((problem.source_language, problem.target_language))[0],
            "output_language": problem.output_language,
            "checkpoint": {
                "name": self.checkpoint.name,
                "step": checkpoint_step(self.checkpoint),
                "members": checkpoints.average_members(self.checkpoint),
                "sha256": _checkpoint_digest(self.checkpoint),
            },
            "hparams": vars(model.hparams),
            "parameters": model.count_params(),
            "decode_hparams": vars(self.settings),
            "vocabulary": self.run_dir.vocabulary.name,
            "inputs_vocabulary": self.run_dir.inputs_vocabulary.name,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        }
