"""Exports trained models."""

import contextlib
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from t2t_lite.config import DecodeHParams
from t2t_lite.decoding.export_dir import ExportDir, check_target, open_export, write_export
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.files import is_pattern
from t2t_lite.runs.checkpoint_files import checkpoint_digest
from t2t_lite.runs.run_dir import RunDir, open_run_dir
from t2t_lite.runs.selection import select
from t2t_lite.runs.tuned_settings import search_settings
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
    run_dir = open_run_dir(Path(output_dir))
    selection = select(run_dir.path, checked.checkpoint_path or None, warn)
    settings = search_settings(run_dir.path, run_dir.problem.decode_hparams, checked.decode_hparams, warn)
    return _write(run_dir, selection.path, settings, checked.format, checked.quantization, export_dir)


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
    ExportOptions(format="ctranslate2")  # checks that CTranslate2 is installed
    checkpoint = select(Path(output_dir), checkpoint_path, warn).path
    path = Path(output_dir) / "exports" / f"ctranslate2.{checkpoint.name}"
    with contextlib.suppress(UserError):
        if open_export(path).content["checkpoint"].get("sha256") == checkpoint_digest(checkpoint):
            return path
    warn(f"exporting {checkpoint} to {path}")
    _write(open_run_dir(Path(output_dir)), checkpoint, settings, "ctranslate2", None, path)
    return path


def _write(
    run_dir: RunDir, checkpoint: Path, settings: DecodeHParams, format: str, quantization: str | None, path: Path
) -> ExportDir:
    """Writes an export and replaces an existing one."""
    with tensorflow_job():
        from t2t_lite.exporting import export_files

        export = export_files.Export(run_dir, checkpoint, settings, format, quantization, path.name)
        return write_export(path, export.write_files)
