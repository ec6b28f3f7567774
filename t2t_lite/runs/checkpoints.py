"""Reads and writes checkpoints, groups of named variables in TensorFlow's format, and the state of a training.

The files of a checkpoint get their final names only once they are complete.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.files import without_patterns
from t2t_lite.runs import checkpoint_files
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.system.locks import locked

# A group of variables that only averages have.
_ABOUT_AVERAGE = "average"
_KEY_END = "/.ATTRIBUTES/VARIABLE_VALUE"
# The beginning of names in version 0.1 that have cross_attention now.
_MEMORY_ATTENTION = re.compile(r"(decoder_\d+[._])memory_attention")


def by_name(keras_variables: Collection[keras.Variable]) -> dict[str, tf.Variable]:
    """Returns Keras variables by path, with "." instead of "/", because TensorFlow would write "/" as ".S"."""
    named = {variable.path.replace("/", "."): variable.value for variable in keras_variables}
    if len(named) != len(keras_variables):
        raise ValueError("two variables have the same path and cannot be stored; give the layers different names")
    return named


def write(path: Path, **groups: dict[str, tf.Variable]) -> Path:
    """Writes a checkpoint, replacing one of the same name; its path has no suffix. Earlier checkpoints stay intact.

    Returns the path of the checkpoint, including a version if it replaces another one, see `checkpoint_files`.
    """
    with _locked_for_writing(path) as kind:
        return _publish(path, kind, groups)


def write_average(path: Path, model: dict[str, tf.Variable], members: Sequence[int] = ()) -> Path:
    """Writes `average-<step>`, for inference only, replacing any other average in the directory.

    `members` are the steps of the averaged checkpoints, which the average records; empty for a moving average of the
    weights. Returns the path of the average, see `write`.
    """
    with _locked_for_writing(path) as kind:
        before = checkpoint_files.list_checkpoints(path.parent, kind)
        about = {"members": tf.Variable(tf.constant(list(members), tf.int64))}
        written = _publish(path, kind, {"model": model, _ABOUT_AVERAGE: about}, members)
        for step, old in before:
            if step != checkpoint_files.checkpoint_step(path):
                checkpoint_files.remove(old)
        return written


@contextlib.contextmanager
def _locked_for_writing(path: Path) -> Iterator[str]:
    """Yields the checkpoint's kind, and keeps others from writing this kind inside the block.

    Otherwise, `remove_leftovers` would delete the files that another process is writing.
    """
    kind = path.name.split("-")[0]
    try:
        with locked(path.with_name(f"{kind}.lock"), wait=True):
            yield kind
    except (tf.errors.OpError, OSError) as error:
        reason = (getattr(error, "message", "") or str(error)).split("\n")[0]
        raise UserError(
            f"cannot write checkpoint {path} ({reason}); free space on that disk and start again; "
            f"earlier checkpoints are intact"
        ) from error


def _publish(path: Path, kind: str, groups: dict[str, dict[str, tf.Variable]], members: Sequence[int] = ()) -> Path:
    checkpoint_files.remove_leftovers(path.parent, kind)
    try:
        partial = tf.train.Checkpoint(**groups).write(str(checkpoint_files.partial_path(path)))
        return checkpoint_files.publish(Path(partial), path, members)
    except (tf.errors.OpError, OSError):
        with contextlib.suppress(OSError):
            checkpoint_files.remove_leftovers(path.parent, kind)  # frees space on a full disk
        raise


def read(path: Path, group: str) -> dict[str, np.ndarray]:
    """Returns the values of a group's variables by name. Raises a UserError if the checkpoint cannot be read."""
    start = group + "/"
    with _damage_reported(path), without_patterns(path) as name:
        reader = tf.train.load_checkpoint(name)
        keys = sorted(key for key in reader.get_variable_to_shape_map() if key.startswith(start))
        # TensorFlow writes "." in a name as "..".
        names = [key.removeprefix(start).removesuffix(_KEY_END).replace("..", ".") for key in keys]
        return {name: reader.get_tensor(key) for name, key in zip(names, keys)}


@contextlib.contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """Turns errors from reading a checkpoint inside the block into a UserError."""
    try:
        yield
    except (tf.errors.OpError, OSError, IndexError, ValueError, RuntimeError) as error:
        reason = str(error).split("\n")[0]
        raise UserError(f"checkpoint {path} is damaged ({reason}); remove {path}.* to continue without it") from error


def average_members(path: Path) -> list[int]:
    """Returns the steps of the checkpoints in an average.

    The list is empty for a training checkpoint, a moving average, or an average from version 0.4.
    """
    return [int(step) for step in read(path, _ABOUT_AVERAGE).get("members", ())]


def refuse_average(path: Path) -> None:
    """Raises UserError if a checkpoint is an average, whatever its name, because training cannot start from one.

    No training step produced the weights of an average, and it has no optimizer state.
    """
    with _damage_reported(path), without_patterns(path) as name:
        names = tf.train.load_checkpoint(name).get_variable_to_shape_map()
    if any(name.startswith("optimizer/") for name in names):
        return
    steps = average_members(path)
    of = f" of the checkpoints of steps {', '.join(map(str, steps))}" if steps else " of weights"
    instead = f"use one of them, such as ckpt-{steps[-1]}" if steps else "use a training checkpoint"
    raise UserError(f"{path} is an average{of}, for inference only, so training cannot start from it; {instead}")


def with_current_names(arrays: dict[str, np.ndarray], names: Collection[str]) -> dict[str, np.ndarray]:
    """Renames the arrays of a checkpoint to the current names of their variables.

    An array is renamed only if `names` contains its current name but not its name in the checkpoint.
    """
    renamed = {}
    for name, array in arrays.items():
        new = _MEMORY_ATTENTION.sub(r"\1cross_attention", name)
        renamed[new if name not in names and new in names else name] = array
    return renamed


def restore(path: Path, group: str, variables: dict[str, tf.Variable]) -> None:
    """Assigns the values of a checkpoint's group to variables.

    Raises a UserError if the checkpoint cannot be read or has other variables. In that case, no variable is changed.
    """
    assign(variables, read(path, group), f"checkpoint {path} does not fit the {group}")


def assign(variables: dict[str, tf.Variable], arrays: dict[str, np.ndarray], complaint: str) -> None:
    """Assigns arrays to the variables of the same names.

    Raises a UserError that begins with `complaint` if names or shapes differ. In that case, no variable is changed.
    """
    arrays = with_current_names(arrays, variables)
    theirs = {name: array.shape for name, array in arrays.items()}
    ours = {name: tuple(variable.shape) for name, variable in variables.items()}
    if theirs != ours:
        names = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
        first = names[0]
        raise UserError(
            f"{complaint}: {len(names)} of {len(theirs.keys() | ours.keys())} variables "
            f"differ; the first is {first}: {theirs.get(first, 'nothing')} in the checkpoint, "
            f"{ours.get(first, 'nothing')} in this run; use a checkpoint of the same run"
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])


def write_mean(directory: Path, members: Sequence[tuple[int, Path]]) -> Path:
    """Writes `average-<step>`, the mean of some checkpoints, named after the last one, and returns its path.

    `members` are (step, path), sorted by step, see `selection.members`. The average records the steps and replaces an
    earlier average.
    """
    variables = {name: tf.Variable(tf.constant(mean)) for name, mean in mean_weights(members).items()}
    steps = [step for step, _ in members]
    return write_average(Path(directory) / f"average-{steps[-1]}", variables, steps)


def mean_weights(members: Sequence[tuple[int, Path]]) -> dict[str, np.ndarray]:
    """Returns the mean of each variable over some checkpoints, float32 by name. See `write_mean` for `members`."""
    _, paths = zip(*members)
    newest = read(paths[-1], "model")
    sums: dict[str, np.ndarray] = {}
    for path in paths:
        arrays = with_current_names(read(path, "model"), newest)
        shapes = {name: array.shape for name, array in arrays.items()}
        if sums and shapes != {name: array.shape for name, array in sums.items()}:
            raise UserError(f"{path} has other variables than {paths[0]}; average only checkpoints of one run")
        for name, array in arrays.items():
            sums[name] = sums.get(name, 0.0) + array.astype(np.float64)
    return {name: (total / len(members)).astype(np.float32) for name, total in sums.items()}


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
        path = write(Path(directory) / f"ckpt-{self.step}", **self._groups)
        # The new checkpoint is not the last one if damaged ones of later steps exist.
        checkpoint_files.remove_old(directory, keep_max, {*keep, self.step})
        if self._average is not None:
            write_average(Path(directory) / f"average-{self.step}", self._average)
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
        self._model = by_name(model.variables)
        progress = {"epoch": self.epoch, "position": self.position}
        self._groups = {"model": self._model, "optimizer": optimizer.state, "progress": progress}

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
            self._assign(arrays, path)
            return path
        if damages:
            raise damages[0]
        return None

    def restore_from(self, path: Path) -> None:
        """Restores one checkpoint. Raises UserError if it cannot be read, does not fit the model, or is an average."""
        self._assign(self._read(path), path)

    def _read(self, path: Path) -> dict[str, dict[str, np.ndarray]]:
        return {group: read(path, group) for group in self._groups}

    def _assign(self, arrays: dict[str, dict[str, np.ndarray]], path: Path) -> None:
        refuse_average(path)
        for group, variables in self._groups.items():
            assign(variables, arrays[group], f"checkpoint {path} does not fit the {group}")


def _on_host(variables: dict[str, tf.Variable]) -> dict[str, tf.Variable]:
    with tf.device("CPU:0"):
        return {name: tf.Variable(variable.value()) for name, variable in variables.items()}


class BackgroundWriter:
    """Writes one checkpoint at a time in a thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._written: Future[tuple[int, Path]] = Future()

    def start(self, step: int, write: Callable[[], Path]) -> None:
        """Starts to write the checkpoint of a step; `write` returns its path. The previous one must be taken first."""
        if self._thread:
            raise RuntimeError("another checkpoint is being written; call take() first")

        written = self._written = Future[tuple[int, Path]]()

        def run() -> None:
            try:
                written.set_result((step, write()))
            except BaseException as error:  # raised again in the caller's thread
                written.set_exception(error)

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
        return self._written.result()

    def wait(self) -> None:
        if self._thread:
            self._thread.join()
