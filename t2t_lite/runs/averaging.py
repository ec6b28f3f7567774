"""Averages checkpoints."""

from os import PathLike
from pathlib import Path
from typing import NamedTuple

from t2t_lite.runs.run_dir import stored_setting
from t2t_lite.runs.selection import members
from t2t_lite.system.tensorflow import tensorflow_job


class AveragedCheckpoints(NamedTuple):
    """An average of checkpoints."""

    path: Path  # the checkpoint, without suffix
    steps: list[int]  # the steps of the averaged checkpoints


def average_checkpoints(
    output_dir: str | PathLike,
    n: int | None = None,
    *,
    steps: str | None = None,
    best: int | str | None = None,
    checkpoint_path: str | PathLike | None = None,
) -> AveragedCheckpoints:
    """Averages checkpoints of a run, by default the last ones, as t2t-lite-avg does (section 6.1 of the paper).

    The new average replaces an earlier one. Decoding and evaluation use it by default.

    Args:
      output_dir: the run directory.
      n: the number of checkpoints; None: `average_checkpoints` of the run's settings.
      steps: instead of `n`, a range of steps, such as "2000-4000": averages all checkpoints in it.
      best: instead of `n`, the number of best checkpoints to average: 3, by the run's `eval_metric`; or "3:chrf", by
        another metric.
      checkpoint_path: with `n`, the last checkpoint to average: "best", "ckpt-2000" or a path; None: the run's last.

    Raises:
      UserError: if `output_dir` is not a run directory, has too few checkpoints, or a checkpoint cannot be read.
    """
    directory = Path(output_dir)
    if n is None and steps is None and best is None:
        n = int(stored_setting(directory, "average_checkpoints"))
    chosen = members(directory, n, steps=steps, best=best, checkpoint_path=checkpoint_path)
    with tensorflow_job():
        from t2t_lite.runs.checkpoints import write_mean

        return AveragedCheckpoints(write_mean(directory, chosen), [step for step, _ in chosen])
