"""Exports trained models."""

import contextlib
import dataclasses
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from t2t_lite.decoding.export_dir import ExportDir, check_target, open_export, write_export
from t2t_lite.decoding.loading import ModelSource, open_model
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.files import is_pattern
from t2t_lite.runs.checkpoint_files import checkpoint_digest
from t2t_lite.system.tensorflow import tensorflow_job


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
    with tensorflow_job():
        from t2t_lite.exporting import export_files

        return write_export(path, export_files.Export(source, format, quantization, path.name).write_files)
