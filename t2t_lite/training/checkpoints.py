"""Saving a training and going on with it."""

from pathlib import Path

import tensorflow as tf

from t2t_lite import checkpoint_files
from t2t_lite.run_dir import list_checkpoints


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
        self._groups = {
            "model": checkpoint_files.by_name(model.variables),
            "optimizer": checkpoint_files.by_name(optimizer.variables),
            "progress": {"epoch": self.epoch, "position": self.position},
        }

    @property
    def step(self) -> int:
        """How many optimizer steps have been made."""
        return int(self.optimizer.iterations.numpy())

    def save(self, directory: Path, keep_max: int) -> Path:
        """Writes `ckpt-<step>` and removes all but the last `keep_max` (at least 1) checkpoints."""
        if keep_max < 1:
            raise ValueError(f"keep_max must be at least 1, not {keep_max}")
        path = Path(directory) / f"ckpt-{self.step}"
        checkpoint_files.write(path, **self._groups)
        for _, old in list_checkpoints(directory)[:-keep_max]:
            checkpoint_files.remove(old)
        return path

    def restore(self, directory: Path) -> Path | None:
        """Reads the last checkpoint of a directory, if there is one, and returns its path.

        Raises:
          UserError: if it cannot be read or does not fit the model.
        """
        checkpoints = list_checkpoints(directory)
        if not checkpoints:
            return None
        path = checkpoints[-1][1]
        for group, variables in self._groups.items():
            checkpoint_files.restore(path, group, variables)
        return path
