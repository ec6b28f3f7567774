"""Averages checkpoints (section 6.1 of the paper)."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.checkpoints import storage
from t2t_lite.checkpoints.versions import list_checkpoints
from t2t_lite.errors import UserError


def average_checkpoints(directory: Path, n: int) -> tuple[Path, list[int]]:
    """Writes `average-<step>`, the mean of the last n checkpoints, for inference only: it has no optimizer state.

    Replaces an earlier average.

    Args:
      directory: a run directory.
      n: number of checkpoints to average, the last ones by step; at least 1.

    Returns:
      (path of the average, the averaged steps).

    Raises:
      UserError: if there are fewer than n checkpoints, one cannot be read, or they hold different variables.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    checkpoints = list_checkpoints(directory)
    if len(checkpoints) < n:
        found = ", ".join(str(step) for step, _ in checkpoints)
        if not checkpoints:
            raise UserError(f"{directory} has no checkpoint yet; train first, with t2t-lite-trainer")
        raise UserError(
            f"{directory} has {len(checkpoints)} checkpoints (steps: {found}), not {n}; use `n={len(checkpoints)}`"
        )
    steps, paths = zip(*checkpoints[-n:])
    newest = storage.read(paths[-1], "model")
    sums: dict[str, np.ndarray] = {}
    for path in paths:
        arrays = storage.with_current_names(storage.read(path, "model"), newest)
        shapes = {name: array.shape for name, array in arrays.items()}
        if sums and shapes != {name: array.shape for name, array in sums.items()}:
            raise UserError(f"{path} has other variables than {paths[0]}; they are not from one run")
        for name, array in arrays.items():
            sums[name] = sums.get(name, 0.0) + array.astype(np.float64)
    variables = {name: tf.Variable(tf.constant((total / n).astype(np.float32))) for name, total in sums.items()}
    target = storage.write_average(Path(directory) / f"average-{steps[-1]}", variables)
    return target, list(steps)
