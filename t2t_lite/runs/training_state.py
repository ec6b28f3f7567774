"""Saves and restores the training state, also in a thread, so that the training does not wait for the disk."""

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoint_files, checkpoints
from t2t_lite.runs.checkpoint_files import list_checkpoints


class Optimizer(Protocol):
    """The parts of an optimizer that are used here."""

    iterations: tf.Variable
    state: dict[str, tf.Variable]
    averages: list[tf.Variable]  # the moving averages of the weights; empty: there are none

    def averages_in_place(self) -> AbstractContextManager[None]: ...


OptimizerT = TypeVar("OptimizerT", bound=Optimizer)


Groups: TypeAlias = dict[str, dict[str, tf.Variable]]


class Snapshot:
    """The training state at one step, to be written while the training goes on."""

    def __init__(self, step: int, groups: Groups, average: dict[str, tf.Variable] | None = None) -> None:
        self.step = step
        self._groups, self._average = groups, average

    def write(self, directory: Path, keep_max: int, keep: Iterable[int] = ()) -> Path:
        """Writes `ckpt-<step>`; keeps only the last `keep_max` (1 or more) checkpoints and those of steps in `keep`.

        Also writes the moving average of the weights, if there is one, as `average-<step>`, replacing an older one.
        Returns the checkpoint's path.
        """
        path = checkpoints.write(Path(directory) / f"ckpt-{self.step}", **self._groups)
        # The new checkpoint is not the last one if damaged ones of later steps exist.
        checkpoint_files.remove_old(directory, keep_max, {*keep, self.step})
        if self._average is not None:
            checkpoints.write_average(Path(directory) / f"average-{self.step}", self._average)
        return path


class TrainingState(Generic[OptimizerT]):
    """Everything that a run needs to resume exactly where it stopped.

    The model must be built. The optimizer's iteration count is the step.
    """

    def __init__(self, model: keras.Model, optimizer: OptimizerT) -> None:
        # The position in the data: `position` batches of `epoch` have been used.
        self.epoch = tf.Variable(tf.constant(0, tf.int64))
        self.position = tf.Variable(tf.constant(0, tf.int64))
        self.optimizer = optimizer
        self._model = checkpoints.by_name(model.variables)
        self._groups = {
            "model": self._model,
            "optimizer": optimizer.state,
            "progress": {"epoch": self.epoch, "position": self.position},
        }

    @property
    def step(self) -> int:
        return int(self.optimizer.iterations.numpy())

    def save(self, directory: Path, keep_max: int, keep: Iterable[int] = ()) -> Path:
        """Writes `ckpt-<step>` without a copy of the state, see `Snapshot.write`."""
        return Snapshot(self.step, self._groups).write(directory, keep_max, keep)

    def snapshot(self) -> Snapshot:
        copies = {group: _on_host(variables) for group, variables in self._groups.items()}
        if not self.optimizer.averages:
            return Snapshot(self.step, copies)
        with self.optimizer.averages_in_place():
            return Snapshot(self.step, copies, _on_host(self._model))

    def restore(self, directory: Path, warn: Callable[[str], None] = LOG.warning) -> Path | None:
        """Restores the last readable checkpoint of a directory. Returns its path, or None if there is no checkpoint.

        `warn` receives a line about each damaged checkpoint that is skipped. It is an error if none can be read, or the
        last readable one is an average or does not fit the model.
        """
        if checkpoint_files.unfinished(directory, "ckpt"):
            warn(f"skipped an incomplete checkpoint in {directory}")
        damages = []
        for _, path in reversed(list_checkpoints(directory)):
            try:
                arrays = self._read(path)
            except UserError as error:
                damages.append(error)
                warn(f"skipped: {str(error).split('; ')[0]}")
                continue
            checkpoints.refuse_average(path)
            self._assign(arrays, path)
            return path
        if damages:
            raise damages[0]
        return None

    def restore_from(self, path: Path) -> None:
        """Restores one checkpoint. Raises UserError if it cannot be read, does not fit the model, or is an average."""
        arrays = self._read(path)
        checkpoints.refuse_average(path)
        self._assign(arrays, path)

    def _read(self, path: Path) -> dict[str, dict[str, np.ndarray]]:
        return {group: checkpoints.read(path, group) for group in self._groups}

    def _assign(self, arrays: dict[str, dict[str, np.ndarray]], path: Path) -> None:
        for group, variables in self._groups.items():
            checkpoints.assign(variables, arrays[group], f"checkpoint {path} does not fit the {group}")


def _on_host(variables: dict[str, tf.Variable]) -> dict[str, tf.Variable]:
    with tf.device("CPU:0"):
        return {name: tf.Variable(variable.value()) for name, variable in variables.items()}


class BackgroundWriter:
    """Writes one checkpoint at a time in a thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._step = 0
        self._path: Path | None = None
        self._error: BaseException | None = None

    def start(self, step: int, write: Callable[[], Path]) -> None:
        """Starts to write the checkpoint of a step; `write` returns its path. The previous one must be taken first."""
        if self._thread:
            raise RuntimeError("another checkpoint is being written; call take() first")

        def run() -> None:
            try:
                self._path = write()
            except BaseException as error:  # raised again in the caller's thread
                self._error = error

        self._step, self._path, self._error = step, None, None
        # A daemon, because a second signal ends the process at once; an unfinished checkpoint does not count.
        self._thread = threading.Thread(target=run, daemon=True, name="checkpoint")
        self._thread.start()

    def take(self, wait: bool) -> tuple[int, Path] | None:
        """Returns the step and path of a checkpoint once it is written, and forgets it; else None.

        Raises UserError if the checkpoint could not be written.
        """
        if self._thread is None or (not wait and self._thread.is_alive()):
            return None
        self._thread.join()
        self._thread = None
        if self._error:
            raise self._error
        return None if self._path is None else (self._step, self._path)

    def wait(self) -> None:
        if self._thread:
            self._thread.join()
