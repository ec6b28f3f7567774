"""Saving a training and going on with it."""

from collections.abc import Callable, Iterable
from pathlib import Path

import tensorflow as tf

from t2t_lite.checkpoints import listing, storage
from t2t_lite.checkpoints.listing import list_checkpoints
from t2t_lite.errors import UserError


class TrainingState:
    """Everything that a run needs to go on as if it had never stopped.

    Args:
      model: a built model.
      optimizer: its `Adam`; its count of iterations is the step.
    """

    def __init__(self, model, optimizer):
        # The place in the data: `position` batches of `epoch` have been used.
        self.epoch = tf.Variable(0, dtype=tf.int64)
        self.position = tf.Variable(0, dtype=tf.int64)
        self.optimizer = optimizer
        self._model = storage.by_name(model.variables)
        self._groups = {
            "model": self._model,
            "optimizer": optimizer.state,
            "progress": {"epoch": self.epoch, "position": self.position},
        }

    @property
    def step(self) -> int:
        """How many steps have been made, skipped ones included."""
        return int(self.optimizer.iterations.numpy())

    def save(self, directory: Path, keep_max: int, keep: Iterable[int] = ()) -> Path:
        """Writes `ckpt-<step>` and removes all but the last `keep_max` (at least 1) checkpoints.

        Args:
          directory: the run directory.
          keep_max: how many of the last are kept.
          keep: steps of others that are kept, too.
        """
        if keep_max < 1:
            raise ValueError(f"keep_max must be at least 1, not {keep_max}")
        path = storage.write(Path(directory) / f"ckpt-{self.step}", **self._groups)
        spared = {*keep, self.step}  # there may be later ones that are damaged
        for step, old in list_checkpoints(directory)[:-keep_max]:
            if step not in spared:
                listing.remove(old)
        return path

    def save_average(self, directory: Path) -> Path:
        """Writes the moving average of the weights as `average-<step>`, in the place of an older average."""
        with self.optimizer.averages_in_place():
            return storage.write_average(Path(directory) / f"average-{self.step}", self._model)

    def restore(self, directory: Path, warn: Callable[[str], None] = print) -> Path | None:
        """Reads the last whole checkpoint of a directory, if there is one, and returns its path.

        Args:
          directory: the run directory.
          warn: takes a line about each checkpoint that is passed over because it is damaged.

        Raises:
          UserError: if none of them can be read, or the last that can does not fit the model.
        """
        if listing.unfinished(directory, "ckpt"):
            warn(f"a checkpoint that was not written to its end is passed over in {directory}")
        damages = []
        for _, path in reversed(list_checkpoints(directory)):
            try:
                arrays = self._read(path)
            except UserError as error:
                damages.append(error)
                warn(f"passed over: {str(error).split('; ')[0]}")
                continue
            self._assign(arrays, path)
            return path
        if damages:
            raise damages[0]
        return None

    def restore_from(self, path: Path) -> None:
        """Reads one checkpoint.

        Raises:
          UserError: if it cannot be read or does not fit the model.
        """
        self._assign(self._read(path), path)

    def _read(self, path: Path) -> dict[str, dict]:
        return {group: storage.read(path, group) for group in self._groups}

    def _assign(self, arrays: dict[str, dict], path: Path) -> None:
        for group, variables in self._groups.items():
            storage.assign(variables, arrays[group], f"checkpoint {path} does not fit the {group}")
