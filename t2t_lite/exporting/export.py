"""Exports trained models."""

import contextlib
import dataclasses
import datetime
import shutil
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from t2t_lite.decoding.ctranslate2_engine import check_settings
from t2t_lite.decoding.export_dir import MODEL_CARD, ExportDir, check_target, open_export, write_export
from t2t_lite.decoding.loading import ModelSource, open_model
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.evaluation.stored import stored_evaluations
from t2t_lite.exporting.model_card import model_card
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.files import is_pattern
from t2t_lite.runs.checkpoint_files import checkpoint_digest, checkpoint_step
from t2t_lite.system.tensorflow import tensorflow_job

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
    checked = ExportOptions.of_keywords(options, export)
    export_dir = Path(export_dir).resolve()  # resolve links, so that writing replaces the target and not the link
    check_target(export_dir, checked.overwrite)
    if checked.format == "saved_model" and is_pattern(export_dir):
        raise UserError(
            f"`export_dir={export_dir}`: TensorFlow cannot load a SavedModel from this folder, because its path has a "
            f"bracket or a backslash; pass another one"
        )
    source = open_model(output_dir, checked.checkpoint_path, checked.decode_hparams)
    for line in source.remarks:
        warn(line)
    return _write(source, checked.format, checked.quantization, export_dir)


def exported_run(source: ModelSource, warn: Callable[[str], None] = LOG.warning) -> ModelSource:
    """Returns a run with its CTranslate2 export, in exports/ in the run directory. Writes it first if necessary.

    `warn` receives the remarks. A new export stores the search settings. Raises UserError if CTranslate2 is not
    installed or does not support the model.
    """
    ExportOptions(format="ctranslate2")  # checks that CTranslate2 is installed
    for line in (*source.settings_remarks, *source.checkpoint_remarks):
        warn(line)
    checkpoint = source.selection.path
    path = source.run_dir.path / "exports" / f"ctranslate2.{checkpoint.name}"
    export = None
    with contextlib.suppress(UserError):
        export = open_export(path)
    if export is None or export.content["checkpoint"].get("sha256") != checkpoint_digest(checkpoint):
        warn(f"exporting {checkpoint} to {path}")
        export = _write(source, "ctranslate2", None, path)
    return dataclasses.replace(source, export=export, checkpoint_remarks=(), settings_remarks=())


def _write(source: ModelSource, format: str, quantization: str | None, path: Path) -> ExportDir:
    """Writes an export and replaces an existing one."""

    def write_files(folder: Path) -> dict[str, Any]:
        """Writes all files except export.json. Returns the content of export.json without checksums."""
        import importlib.metadata  # slow, and commands import this module for their flags

        from t2t_lite.runs.checkpoints import average_members

        run_dir, checkpoint, settings = source.run_dir, source.selection.path, source.settings
        targets, inputs = source.vocabularies
        (model,) = source.models("float32")  # the weights are float32, whatever precision the training used
        max_positions = model.max_positions
        if format == "ctranslate2":
            from t2t_lite.exporting import ctranslate2_model

            check_settings(settings.replace(only_trees=False))
            names = targets.tokens(), inputs.tokens()
            ctranslate2_model.write(model, *names, folder, quantization, targets.unknown_id)
            max_positions = max_positions or ctranslate2_model.POSITIONS
        elif format == "saved_model":
            from t2t_lite.exporting import saved_model

            saved_model.check(settings, source.has_inputs)
            saved_model.write(model, targets, inputs, settings, folder)
        else:
            model.save(folder / "model.keras")
        for file in dict.fromkeys((run_dir.vocabulary, run_dir.inputs_vocabulary)):
            shutil.copyfile(file, folder / file.name)
        alignment_layer = None
        with contextlib.suppress(UserError):  # a model without word alignments
            alignment_layer = model.alignment_layer
        packages = ("t2t-lite", *_PACKAGES[format])
        content = {
            "run": run_dir.path.resolve().name,
            "problem": source.problem,
            "has_inputs": source.has_inputs,
            "writes_trees": source.writes_trees,
            "source_language": source.source_language,
            "output_language": source.target_language,
            "checkpoint": {
                "name": checkpoint.name,
                "step": checkpoint_step(checkpoint),
                "members": average_members(checkpoint),
                "sha256": checkpoint_digest(checkpoint),
            },
            "hparams": vars(model.hparams),
            "parameters": model.count_params(),
            "decode_hparams": vars(settings),
            "vocabulary": run_dir.vocabulary.name,
            "inputs_vocabulary": run_dir.inputs_vocabulary.name,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "format": format,
            "quantization": quantization,
            "max_positions": max_positions,
            "alignment_layer": alignment_layer,
            "versions": {package: importlib.metadata.version(package) for package in packages},
        }
        stored = [each for split in ("test", "dev") for each in stored_evaluations(run_dir, split, checkpoint)]
        scores = [each for each in stored if each.decode_hparams == vars(settings)]
        example = (scores[0].inputs or [""])[0] if scores else "..."
        (folder / MODEL_CARD).write_text(model_card(content, path.name, scores, example), encoding="utf-8")
        return content

    with tensorflow_job():
        return write_export(path, write_files)
