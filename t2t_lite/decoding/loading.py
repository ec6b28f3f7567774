"""Loads models and vocabularies from run directories for decoding."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.config import HParams
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.engine import Loaded
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import make_model
from t2t_lite.options import SettingValue
from t2t_lite.runs import checkpoints
from t2t_lite.runs.run_dir import open_run_dir
from t2t_lite.runs.selection import names_one_file, select
from t2t_lite.runs.tuned_settings import search_settings
from t2t_lite.system.machine import warn_if_unused

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
    warn_if_unused(warn)
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
    models = []
    for run_dir, checkpoint in zip(run_dirs, checkpoints):
        # Ignores the training precision: weights are float32, and results should not depend on the machine.
        hparams = run_dir.hparams.replace(precision=settings.precision)
        sizes = first[-1].size, first[0].size
        models.append(restored_model(hparams, *sizes, checkpoint, run_dir.alignment_layer))
        models[-1].freeze()
    vocabularies, problem = (first[-1], first[0]), run_dirs[0].problem
    model = models[0] if len(models) == 1 else Ensemble(models)
    engine = TensorFlowEngine(model, *vocabularies, options, checkpoints)
    return Loaded(engine, *vocabularies, settings, problem.name, problem.has_inputs, checkpoints)


def restored_model(
    hparams: HParams, vocab_size: int, inputs_vocab_size: int, checkpoint: Path, alignment_layer: int | None = None
) -> Seq2SeqModel:
    """Returns a model with the weights of a checkpoint, whose path has no suffix.

    `alignment_layer` is that of the `RunDir`.
    """
    TensorFlowEngine.check_first_process()
    model = make_model(hparams, vocab_size, inputs_vocab_size)
    model.measured_alignment_layer = alignment_layer
    checkpoints.restore(checkpoint, "model", checkpoints.by_name(model.variables))
    return model


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
        from t2t_lite.models.loading import load_model_file

        return load_model_file(path)
    from t2t_lite.runs.run_dir import open_run_dir
    from t2t_lite.system.tensorflow import load_tensorflow

    run_dir = open_run_dir(path)
    load_tensorflow()
    from t2t_lite.data.vocab import open_vocabulary
    from t2t_lite.decoding.loading import restored_model
    from t2t_lite.runs.selection import select

    checkpoint = select(run_dir.path, checkpoint_path).path
    targets, inputs = (open_vocabulary(path) for path in (run_dir.vocabulary, run_dir.inputs_vocabulary))
    return restored_model(run_dir.hparams, targets.size, inputs.size, checkpoint, run_dir.alignment_layer)
