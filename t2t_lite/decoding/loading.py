"""Loads models for decoding: those of run directories, and exports; CTranslate2 models without TensorFlow."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.ctranslate2_engine import CTranslate2Engine
from t2t_lite.decoding.engine import LEARNED_POSITIONS, Engine, Loaded
from t2t_lite.decoding.export_dir import open_export, warn_of_version
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.errors import UserError
from t2t_lite.options import SettingValue
from t2t_lite.runs.run_dir import open_run_dir
from t2t_lite.runs.selection import names_one_file, select
from t2t_lite.runs.tuned_settings import search_settings
from t2t_lite.system.machine import warn_if_unused
from t2t_lite.system.tensorflow import load_tensorflow

if TYPE_CHECKING:
    import keras


def load_runs(
    paths: Sequence[Path],
    decode_hparams: str | Mapping[str, SettingValue],
    checkpoint_path: str | PathLike | None,
    options: EngineOptions,
) -> Loaded:
    """Loads models from run directories with the same vocabularies; for arguments see `Translator.from_run_dir`.

    `options.warn` also receives lines about tuned settings, and about a loaded checkpoint that is outdated or not the
    best one.
    """
    warn = options.warn
    run_dirs = [open_run_dir(path) for path in paths]
    if names_one_file(checkpoint_path) and len(run_dirs) > 1:
        raise UserError(
            f"`checkpoint_path={checkpoint_path}` works with one run directory, not with {len(run_dirs)}; "
            f"use best, last or average"
        )
    checkpoints = [select(run_dir.path, checkpoint_path, warn).path for run_dir in run_dirs]
    settings = search_settings(run_dirs[0].path, run_dirs[0].problem.decode_hparams, decode_hparams, warn)
    first, *others = [
        [open_vocabulary(path) for path in dict.fromkeys((run_dir.inputs_vocabulary, run_dir.vocabulary))]
        for run_dir in run_dirs
    ]
    for other in others:
        for mine, theirs in zip((first[0], first[-1]), (other[0], other[-1])):
            if mine.sha256 != theirs.sha256:
                raise UserError(f"{mine.path} and {theirs.path} differ; use models with the same vocabulary")
    load_tensorflow()
    from t2t_lite.decoding import tensorflow_engine

    warn_if_unused(warn)
    models = []
    for run_dir, checkpoint in zip(run_dirs, checkpoints):
        # Ignores the training precision: weights are float32, and results should not depend on the machine.
        hparams = run_dir.hparams.replace(precision=settings.precision)
        sizes = first[-1].size, first[0].size
        models.append(tensorflow_engine.restored_model(hparams, *sizes, checkpoint, run_dir.alignment_layer))
        models[-1].freeze()
    vocabularies, problem = (first[-1], first[0]), run_dirs[0].problem
    model = models[0] if len(models) == 1 else tensorflow_engine.Ensemble(models)
    engine = tensorflow_engine.TensorFlowEngine(model, options, checkpoints)
    return Loaded(engine, *vocabularies, settings, problem.name, problem.has_inputs, checkpoints)


def load_export(path: Path, decode_hparams: str | Mapping[str, SettingValue], options: EngineOptions) -> Loaded:
    """Loads an export directory; for arguments and errors see `Translator.from_export`."""
    export = open_export(path)
    warn_of_version(export, options.warn)
    targets, *others = (open_vocabulary(file) for file in dict.fromkeys((export.vocabulary, export.inputs_vocabulary)))
    vocabularies = targets, others[0] if others else targets
    settings, content = export.decode_hparams.changed(decode_hparams), export.content
    engine: Engine
    if export.format == "ctranslate2":
        is_learned = content["hparams"].get("position_encoding") == "learned"
        engine = CTranslate2Engine(
            path,
            *vocabularies,
            content["max_positions"],
            LEARNED_POSITIONS if is_learned else "the limit of the export",
            content["alignment_layer"],
            options,
            digest=content["files"]["model.bin"]["sha256"],
            quantization=content.get("quantization"),
        )
    elif export.format == "keras":
        load_tensorflow()
        from t2t_lite.decoding import tensorflow_engine

        engine = tensorflow_engine.keras_engine(export, vocabularies, settings, options)
    else:
        raise UserError(
            f"{path} is a SavedModel, which t2t-lite does not load; load it with TensorFlow (see "
            f"{path / 'README.md'}), or export the run with --format=ctranslate2 or keras"
        )
    return Loaded(engine, *vocabularies, settings, content["problem"], content["has_inputs"])


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
        from t2t_lite.models.loading import load_model_file  # under any backend of Keras

        return load_model_file(path)
    run_dir = open_run_dir(path)
    load_tensorflow()
    from t2t_lite.decoding import tensorflow_engine

    checkpoint = select(run_dir.path, checkpoint_path).path
    targets, inputs = (open_vocabulary(path) for path in (run_dir.vocabulary, run_dir.inputs_vocabulary))
    return tensorflow_engine.restored_model(
        run_dir.hparams, targets.size, inputs.size, checkpoint, run_dir.alignment_layer
    )
