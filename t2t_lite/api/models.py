"""Loads models."""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras


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
    from t2t_lite.run_dir import open_run_dir
    from t2t_lite.system.quiet import load_tensorflow

    run_dir = open_run_dir(path)
    load_tensorflow()
    from t2t_lite.checkpoints.selection import select
    from t2t_lite.data.vocab import open_vocabulary
    from t2t_lite.decoding.loading import restored_model

    checkpoint = select(run_dir.path, checkpoint_path).path
    targets, inputs = (open_vocabulary(path) for path in (run_dir.vocabulary, run_dir.inputs_vocabulary))
    return restored_model(run_dir.hparams, targets.size, inputs.size, checkpoint, run_dir.alignment_layer)
