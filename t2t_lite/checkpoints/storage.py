"""Checkpoint files: named variables in groups, in TensorFlow's format, written beside and renamed when whole."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.checkpoints import listing
from t2t_lite.errors import UserError
from t2t_lite.locks import locked

_KEY_END = "/.ATTRIBUTES/VARIABLE_VALUE"
# Variables of checkpoints from before version 0.2, with their names since.
_RENAMED = (re.compile(r"(decoder_\d+[._])memory_attention"), r"\1cross_attention")


def by_name(keras_variables) -> dict[str, tf.Variable]:
    """Returns Keras variables under their paths, "." for "/" because TensorFlow would spell the latter ".S"."""
    named = {variable.path.replace("/", "."): variable.value for variable in keras_variables}
    if len(named) != len(keras_variables):
        raise ValueError("two variables of one path cannot be stored; give the layers different names")
    return named


def write(path: Path, **groups: dict[str, tf.Variable]) -> Path:
    """Writes a checkpoint, in the place of one of the same name if there is one.

    Args:
      path: its name without ending.
      groups: variables by name, in groups such as `model` and `optimizer`.

    Returns:
      its name; that of a new version if it takes another's place, see `listing`.

    Raises:
      UserError: if the disk does not take it; what was there before is unharmed.
    """
    with _writing(path) as kind:
        return _write(path, kind, groups)


def write_average(path: Path, model: dict[str, tf.Variable]) -> Path:
    """Writes `average-<step>`, for inference only, in the place of any other average in that directory.

    Returns:
      its name, see `write`.
    """
    with _writing(path) as kind:
        before = listing.list_checkpoints(path.parent, kind)
        written = _write(path, kind, {"model": model})
        for step, old in before:
            if step != listing.step_of(path):
                listing.remove(old)
        return written


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[str]:
    """Inside the block nobody else writes checkpoints of that kind, which it gives: else theirs would be leftovers."""
    kind = path.name.split("-")[0]
    try:
        with locked(path.with_name(f"{kind}.lock"), wait=True):
            yield kind
    except (tf.errors.OpError, OSError) as error:
        reason = (getattr(error, "message", "") or str(error)).split("\n")[0]
        raise UserError(
            f"cannot write checkpoint {path} ({reason}); make room on that disk and give the same command again, "
            f"earlier checkpoints are whole"
        ) from error


def _write(path: Path, kind: str, groups: dict[str, dict[str, tf.Variable]]) -> Path:
    listing.remove_leftovers(path.parent, kind)  # of processes that were killed
    try:
        partial = tf.train.Checkpoint(**groups).write(str(listing.partial_path(path)))
        return listing.publish(Path(partial), path)
    except (tf.errors.OpError, OSError):
        with contextlib.suppress(OSError):
            listing.remove_leftovers(path.parent, kind)  # a full disk has other uses for the room
        raise


def read(path: Path, group: str) -> dict[str, np.ndarray]:
    """Returns the values of a group's variables, by name.

    Raises:
      UserError: if the checkpoint cannot be read.
    """
    start = group + "/"
    try:
        reader = tf.train.load_checkpoint(str(path))
        keys = sorted(key for key in reader.get_variable_to_shape_map() if key.startswith(start))
        # TensorFlow spells a "." of a name ".." in the file.
        names = [key.removeprefix(start).removesuffix(_KEY_END).replace("..", ".") for key in keys]
        old, new = _RENAMED
        return {old.sub(new, name): reader.get_tensor(key) for name, key in zip(names, keys)}
    except (tf.errors.OpError, OSError, IndexError, ValueError, RuntimeError) as error:
        reason = str(error).split("\n")[0]
        raise UserError(f"checkpoint {path} is damaged ({reason}); remove {path}.* to go on without it") from error


def restore(path: Path, group: str, variables: dict[str, tf.Variable]) -> None:
    """Gives variables the values that a group of a checkpoint holds.

    Raises:
      UserError: if the checkpoint cannot be read, or holds other variables than these; none of them is changed then.
    """
    assign(variables, read(path, group), f"checkpoint {path} does not fit the {group}")


def assign(variables: dict[str, tf.Variable], arrays: dict[str, np.ndarray], complaint: str) -> None:
    """Gives variables the values of arrays of their names.

    Raises:
      UserError: that begins with `complaint`, if names or shapes differ; none of them is changed then.
    """
    theirs = {name: array.shape for name, array in arrays.items()}
    ours = {name: tuple(variable.shape) for name, variable in variables.items()}
    if theirs != ours:
        names = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
        first = names[0]
        raise UserError(
            f"{complaint}: {len(names)} of {len(theirs.keys() | ours.keys())} variables "
            f"differ, first {first}: {theirs.get(first, 'nothing')} there, {ours.get(first, 'nothing')} here; "
            f"use a checkpoint of the same run"
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])
