"""Checkpoints: every variable under its own name, written beside and renamed when whole."""

import os
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.run_dir import list_checkpoints

_DATA = ".data-00000-of-00001"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


class TrainingState:
    """Everything that a run needs to go on as if it had never stopped.

    Args:
      model: a built model.
      optimizer: a built optimizer; its count of iterations is the step.
    """

    def __init__(self, model, optimizer):
        # The place in the data: `position` batches of `epoch` have been used.
        self.epoch = tf.Variable(0, dtype=tf.int64)
        self.position = tf.Variable(0, dtype=tf.int64)
        self.optimizer = optimizer
        self._checkpoint = tf.train.Checkpoint(
            model=_by_name(model.variables),
            optimizer=_by_name(optimizer.variables),
            progress={"epoch": self.epoch, "position": self.position},
        )

    @property
    def step(self) -> int:
        """How many optimizer steps have been made."""
        return int(self.optimizer.iterations.numpy())

    def save(self, directory: Path, keep_max: int) -> Path:
        """Writes `ckpt-<step>` and removes all but the last `keep_max` checkpoints."""
        path = Path(directory) / f"ckpt-{self.step}"
        write_checkpoint(self._checkpoint, path)
        for _, old in list_checkpoints(directory)[:-keep_max]:
            remove_checkpoint(old)
        return path

    def restore(self, directory: Path) -> Path | None:
        """Reads the last checkpoint of a directory, if there is one, and returns its path.

        Raises:
          UserError: if it does not fit the model.
        """
        checkpoints = list_checkpoints(directory)
        if not checkpoints:
            return None
        path = checkpoints[-1][1]
        _restore(self._checkpoint, path)
        return path


def restore_model(model, path: Path) -> None:
    """Reads a model's variables from a checkpoint or an average.

    Raises:
      UserError: if the file does not fit the model.
    """
    _restore(tf.train.Checkpoint(model=_by_name(model.variables)), path)


def write_checkpoint(checkpoint: tf.train.Checkpoint, path: Path) -> None:
    """Writes a checkpoint so that its index file, which makes it one, appears last."""
    partial = checkpoint.write(str(path.with_name("incomplete-" + path.name)))
    os.replace(partial + _DATA, str(path) + _DATA)
    os.replace(partial + ".index", str(path) + ".index")


def remove_checkpoint(path: Path) -> None:
    """Removes a checkpoint; its index first, so that no half of it looks like a whole one."""
    Path(str(path) + ".index").unlink(missing_ok=True)
    Path(str(path) + _DATA).unlink(missing_ok=True)


def read_model_arrays(path: Path) -> dict[str, np.ndarray]:
    """Returns the model's variables in a checkpoint, by name."""
    reader = tf.train.load_checkpoint(str(path))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("model/")]
    # TensorFlow spells a "." of a name ".." in the file.
    return {
        name.removeprefix("model/").removesuffix(_SUFFIX).replace("..", "."): reader.get_tensor(name)
        for name in sorted(names)
    }


def _by_name(variables) -> dict[str, tf.Variable]:
    """Returns the variables under their paths; a "/" would be spelled ".S" in the file."""
    return {variable.path.replace("/", "."): variable.value for variable in variables}


def _restore(checkpoint: tf.train.Checkpoint, path: Path) -> None:
    try:
        checkpoint.read(str(path)).assert_existing_objects_matched().expect_partial()
    except (AssertionError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise UserError(f"checkpoint {path} does not fit the model of hparams.json beside it: {reason}") from error
    except (tf.errors.OpError, OSError) as error:
        raise UserError(f"checkpoint {path} is damaged; remove {path}.* to use the one before") from error
