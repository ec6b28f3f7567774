"""Averages checkpoints."""

from os import PathLike
from pathlib import Path
from typing import NamedTuple

from t2t_lite.training.options import check_count


class AveragedCheckpoints(NamedTuple):
    """An average of checkpoints."""

    path: Path  # the checkpoint, without suffix
    steps: list[int]  # the steps of the averaged checkpoints


def average_checkpoints(output_dir: str | PathLike, n: int | None = None) -> AveragedCheckpoints:
    """Averages the last checkpoints of a run, as t2t-lite-avg does (section 6.1 of the paper).

    The average replaces an earlier one; decoding and evaluation use it by default.

    Args:
      output_dir: the run directory.
      n: the number of checkpoints; None: `average_checkpoints` of the run's settings.

    Raises:
      UserError: if it is not a run directory, there are fewer than n checkpoints, or one cannot be read.
    """
    from t2t_lite.quiet import import_tensorflow, settings_restored
    from t2t_lite.run_dir import stored_setting

    check_count("n", n, 1)
    directory = Path(output_dir)
    number = stored_setting(directory, "average_checkpoints") if n is None else n
    with settings_restored():
        import_tensorflow()
        from t2t_lite.checkpoints.averaging import average_checkpoints as average

        return AveragedCheckpoints(*average(directory, int(number)))
