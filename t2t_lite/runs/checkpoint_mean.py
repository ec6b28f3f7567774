"""Averages checkpoints (section 6.1 of the paper)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoints
from t2t_lite.runs.selection import members as last_members


def average_checkpoints(directory: Path, n: int) -> tuple[Path, list[int]]:
    """Writes `average-<step>`, the mean of the last n checkpoints; for inference only, without optimizer state.

    Replaces an earlier average. Returns (path of the average, steps of the averaged checkpoints).
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    members = last_members(directory, n)
    return write_mean(directory, members), [step for step, _ in members]


def write_mean(directory: Path, members: Sequence[tuple[int, Path]]) -> Path:
    """Writes `average-<step>`, the mean of some checkpoints, named after the last one, and returns its path.

    `members` are (step, path), sorted by step, see `selection.members`. The average records the steps and replaces an
    earlier average.
    """
    variables = {name: tf.Variable(tf.constant(mean)) for name, mean in mean_weights(members).items()}
    steps = [step for step, _ in members]
    return checkpoints.write_average(Path(directory) / f"average-{steps[-1]}", variables, steps)


def mean_weights(members: Sequence[tuple[int, Path]]) -> dict[str, np.ndarray]:
    """Returns the mean of each variable over some checkpoints, float32 by name. See `write_mean` for `members`."""
    _, paths = zip(*members)
    newest = checkpoints.read(paths[-1], "model")
    sums: dict[str, np.ndarray] = {}
    for path in paths:
        arrays = checkpoints.with_current_names(checkpoints.read(path, "model"), newest)
        shapes = {name: array.shape for name, array in arrays.items()}
        if sums and shapes != {name: array.shape for name, array in sums.items()}:
            raise UserError(f"{path} has other variables than {paths[0]}; average only checkpoints of one run")
        for name, array in arrays.items():
            sums[name] = sums.get(name, 0.0) + array.astype(np.float64)
    return {name: (total / len(members)).astype(np.float32) for name, total in sums.items()}
