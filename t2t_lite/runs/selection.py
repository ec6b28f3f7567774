"""Selects a checkpoint of a run: the best, the last, the average, or a named one. Reads no weights.

best, best:METRIC    the best existing checkpoint by `evaluations.json`
last                 the checkpoint of the last step
average              the average of checkpoints
ckpt-N, average-N    a checkpoint of the run
PATH                 any checkpoint, without suffix
"""

import re
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.metric import figure_name, is_of_outputs, metric_named
from t2t_lite.runs.checkpoint_files import best_checkpoint, checkpoint_step, existing, list_checkpoints
from t2t_lite.runs.evaluations import best_steps, read_evaluations
from t2t_lite.runs.run_dir import recorded, stored_setting
from t2t_lite.system.tensorflow import tensorflow_job

BEST, LAST, AVERAGE = "best", "last", "average"
# A range of steps, see `members`.
_RANGE = re.compile(r"(\d*)-(\d*)")


class Selection(NamedTuple):
    """A selected checkpoint."""

    path: Path  # without suffix
    reason: str = ""  # such as "best by bleu"; "" if there is nothing to explain

    def __str__(self) -> str:
        return f"{self.path} ({self.reason})" if self.reason else str(self.path)


def names_one_file(checkpoint_path: str | PathLike | None) -> bool:
    """Returns whether `checkpoint_path` is the path of a checkpoint, not a word such as "best"."""
    asked = str(checkpoint_path or LAST)
    return asked not in (LAST, AVERAGE) and not _is_best(asked) and not re.fullmatch(r"(ckpt|average)-\d+", asked)


def select(
    directory: Path, checkpoint_path: str | PathLike | None = None, warn: Callable[[str], None] = LOG.warning
) -> Selection:
    """Returns the checkpoint of a run that `checkpoint_path` selects, see the top of this file.

    None selects the average if there is one, else the last checkpoint. `warn` receives a line if the average is older
    than the last checkpoint, or a better checkpoint was removed.
    """
    asked = "" if checkpoint_path is None else str(checkpoint_path).removesuffix(".index")
    if _is_best(asked):
        return _best(directory, asked, warn)
    if not asked:
        checkpoint, last = best_checkpoint(directory), list_checkpoints(directory)
        if last and last[-1][0] > checkpoint_step(checkpoint):
            warn(f"{checkpoint} is older than {last[-1][1]}; run t2t-lite-avg again to include later checkpoints")
        return Selection(checkpoint)
    if asked in (LAST, AVERAGE):
        if checkpoints := list_checkpoints(directory, "ckpt" if asked == LAST else "average"):
            return Selection(checkpoints[-1][1])
        raise _missing(directory, asked, "write it first with t2t-lite-avg" if asked == AVERAGE else "")
    inside = Path(directory) / asked if Path(asked).name == asked else None
    for path in filter(None, (inside, Path(asked))):
        if checkpoint := existing(path):
            return Selection(checkpoint)
    raise _missing(directory, asked, "" if inside else f"there is no {asked}.index")


def members(
    directory: Path,
    n: int | None = None,
    *,
    steps: str | None = None,
    best: str | int | None = None,
    checkpoint_path: str | PathLike | None = None,
) -> list[tuple[int, Path]]:
    """Returns (step, path) of the checkpoints to average, sorted by step.

    Args:
      n: the number of last checkpoints, at least 1.
      steps: instead of `n`, a range of steps, "2000-4000", "2000-" or "-4000": all checkpoints in it.
      best: instead of `n`, the number of best checkpoints, 3, or with a metric, "3:chrf".
      checkpoint_path: with `n`, the last checkpoint to average; None: the last one of the run.
    """
    if sum(value is not None for value in (n, steps, best)) != 1:
        raise UserError("pass one of `n`, `steps` and `best`", status=2)
    if checkpoint_path is not None and n is None:
        raise UserError("`checkpoint_path` selects the last of `n` checkpoints; pass `n`, too", status=2)
    if n is not None and n < 1:
        raise UserError(f"`n={n}` is out of range: it must be at least 1", status=2)
    if not (checkpoints := list_checkpoints(directory)):
        raise UserError(f"{directory} has no checkpoint yet; train first, with t2t-lite-trainer")
    if best is not None:
        return _best_members(directory, str(best), checkpoints)
    if steps is not None:
        return _members_in(directory, steps, checkpoints)
    if checkpoint_path is not None:
        last, paths = select(directory, checkpoint_path).path, [path for _, path in checkpoints]
        if last not in paths:
            raise UserError(f"`checkpoint_path={checkpoint_path}`: {last} is not a checkpoint to average; use {LAST}")
        checkpoints = checkpoints[: paths.index(last) + 1]
    n = n or 0
    if len(checkpoints) < n:
        raise UserError(
            f"{directory} has {len(checkpoints)} checkpoints (steps: {_steps(checkpoints)}), not {n}; "
            f"use `n={len(checkpoints)}`"
        )
    return checkpoints[-n:]


def best_by(directory: Path, metric: str | None = None, argument: str = "checkpoint_path") -> tuple[str, list[int]]:
    """Returns (the metric's name in evaluations, all steps evaluated by it, best first), including removed checkpoints.

    `metric` is a metric by either of its names, see `metric_named`. None: the run's `eval_metric`; if the run does not
    record it, the problem's metric if evaluations decoded, else the loss. Messages name `argument`.
    """
    if not (evaluations := read_evaluations(directory)):
        raise UserError(
            f"the best checkpoint is unknown: no checkpoint in {directory} was evaluated (there is no "
            f"evaluations.json); evaluate them with t2t-lite-trainer --schedule=eval, or use the last checkpoints"
        )
    known = list(dict.fromkeys(figure for figures in evaluations.values() for figure in figures))
    # An evaluation lists token metrics first, then the problem's metric.
    usual = recorded(directory, "eval_metric") or next(filter(is_of_outputs, known), "loss")
    figure = figure_name(metric_named(str(metric or usual), argument))
    if not (ranked := best_steps(evaluations, figure, len(evaluations))):
        raise UserError(
            f"the best checkpoint by {figure} is unknown: no evaluation in {directory} has this metric; choose one of "
            f"{', '.join(known)}, as in {BEST}:{known[0]}"
        )
    return figure, ranked


def _is_best(asked: str) -> bool:
    return asked == BEST or asked.startswith(f"{BEST}:")


def _best(directory: Path, asked: str, warn: Callable[[str], None]) -> Selection:
    figure, ranked = best_by(directory, asked.partition(":")[2] or None, f"checkpoint_path={asked}")
    here = dict(list_checkpoints(directory))
    if not (existing_steps := [step for step in ranked if step in here]):
        raise _missing(
            directory, asked, f"all evaluated checkpoints were removed; the best by {figure} was ckpt-{ranked[0]}"
        )
    if existing_steps[0] != ranked[0]:
        warn(
            f"the best checkpoint by {figure}, ckpt-{ranked[0]}, was removed; using the best that exists, "
            f"ckpt-{existing_steps[0]}. To keep the best checkpoints of a run, set `keep_best_n`"
        )
    if stored_setting(directory, "ema_decay"):
        warn(
            f"the scores of ckpt-{existing_steps[0]} are those of the moving average of its weights; choose {AVERAGE} "
            f"to use the latest moving average"
        )
    return Selection(here[existing_steps[0]], f"best by {figure}")


def _best_members(directory: Path, best: str, checkpoints: list[tuple[int, Path]]) -> list[tuple[int, Path]]:
    number, _, metric = best.partition(":")
    if not number.isdecimal() or int(number) < 1:
        raise UserError(
            f"`best={best}` is neither a number of checkpoints, such as 3, nor a number with a metric, such as 3:chrf"
        )
    figure, ranked = best_by(directory, metric or None, f"best={best}")
    here = dict(checkpoints)
    chosen = [step for step in ranked if step in here][: int(number)]
    if len(chosen) < int(number):
        raise UserError(
            f"{directory} has {len(chosen)} checkpoints that were evaluated by {figure} (steps: "
            f"{', '.join(map(str, sorted(chosen))) or 'none'}), not {number}; use `best={len(chosen)}`, or `n`"
        )
    return [(step, here[step]) for step in sorted(chosen)]


def _members_in(directory: Path, steps: str, checkpoints: list[tuple[int, Path]]) -> list[tuple[int, Path]]:
    match = _RANGE.fullmatch(steps)
    if not match or not any(match.groups()):
        raise UserError(f"`steps={steps}` is not a range of steps, such as 2000-4000", status=2)
    first, last = int(match[1] or 0), int(match[2] or checkpoints[-1][0])
    if not (chosen := [(step, path) for step, path in checkpoints if first <= step <= last]):
        raise UserError(
            f"`steps={steps}`: {directory} has no checkpoint in this range; its steps are {_steps(checkpoints)}"
        )
    return chosen


def _missing(directory: Path, asked: str, why: str) -> UserError:
    if not (here := [path.name for kind in ("ckpt", "average") for _, path in list_checkpoints(directory, kind)]):
        return UserError(f"{directory} has no checkpoint yet; train first, with t2t-lite-trainer")
    why = f" ({why})" if why else ""
    return UserError(
        f"`checkpoint_path={asked}`: no such checkpoint{why}; choose one of those in {directory} ({', '.join(here)}), "
        f"or {BEST}, {LAST} or {AVERAGE}"
    )


def _steps(checkpoints: list[tuple[int, Path]]) -> str:
    return ", ".join(str(step) for step, _ in checkpoints)


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
        n = min(n, len(list_checkpoints(directory)) or n)
    chosen = members(directory, n, steps=steps, best=best, checkpoint_path=checkpoint_path)
    with tensorflow_job():
        from t2t_lite.runs.checkpoints import write_mean

        return AveragedCheckpoints(write_mean(directory, chosen), [step for step, _ in chosen])
