"""Options of a training run."""

import dataclasses
from collections.abc import Mapping
from os import PathLike
from typing import TypedDict

from t2t_lite.errors import UserError, nearest
from t2t_lite.scoring.metric import TOKENS, metric_named, needs_of
from t2t_lite.settings import SettingValue

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
SCHEDULES = ("train_and_evaluate", "train", "eval")
# The least values of numbers.
_COUNTS = {
    "save_checkpoints_secs": 1,
    "save_checkpoints_steps": 0,
    "keep_checkpoint_max": 1,
    "keep_best_n": 0,
    "early_stopping_patience": 0,
    "eval_lines": 1,
    "eval_wait_secs": 0,
    "log_step_count_steps": 1,
    "random_seed": 0,
    "max_tokens_per_replica": 1,
}


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """Options of a training run. Only `random_seed` and `warm_start_from` change what is learned.

    Args:
      schedule: "train_and_evaluate"; "train": no evaluations; "eval": evaluate the checkpoints that another process
        writes.
      save_checkpoints_secs: seconds between checkpoints; each one is evaluated.
      save_checkpoints_steps: steps between checkpoints; if above 0, save_checkpoints_secs is ignored.
      keep_checkpoint_max: how many of the last checkpoints to keep.
      keep_best_n: how many of the best checkpoints to keep in addition.
      eval_metric: the metric that ranks checkpoints: the name of a registered metric, or of its figure.
      eval_decode: whether evaluations translate (or parse) the dev split, for the problem's metric and `eval_metric`.
      decode_hparams: changes to the problem's search settings for these evaluations, as a dict or "name=value,...".
      eval_lines: how many lines they translate (or parse), the first ones of the dev split; None: all.
      early_stopping_patience: stop after this many evaluations without a better one; 0: never.
      eval_wait_secs: with schedule=eval, stop after this many seconds without a new checkpoint.
      log_step_count_steps: steps between progress reports.
      random_seed: fixes initial weights, data order and dropout.
      warm_start_from: another run, or a checkpoint in it, that provides the initial weights.
      max_tokens_per_replica: positions of the longer side, padding included, that a device holds at once; None: as many
        as fit into `free_bytes`.
      free_bytes: free memory per device, from `device_memory` before the strategy is created; None: unknown.
      xla_compile: compile loss and gradients with XLA, once for each of a few shapes.
      peak_tflops: peak rate of one device, for the utilisation; None: measured.
      profile: write a TensorBoard trace of a few steps.
    """

    schedule: str = "train_and_evaluate"
    save_checkpoints_secs: int = 600
    save_checkpoints_steps: int = 0
    keep_checkpoint_max: int = 20
    keep_best_n: int = 0
    eval_metric: str = "loss"
    eval_decode: bool = False
    decode_hparams: str | Mapping[str, SettingValue] = ""
    eval_lines: int | None = None
    early_stopping_patience: int = 0
    eval_wait_secs: int = 3600
    log_step_count_steps: int = 100
    random_seed: int = 1
    warm_start_from: str | PathLike | None = None
    max_tokens_per_replica: int | None = None
    free_bytes: int | None = None
    xla_compile: bool = False
    peak_tflops: float | None = None
    profile: bool = False

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise UserError(f"`schedule={self.schedule}` is unknown{nearest(str(self.schedule), SCHEDULES)}", status=2)
        metric = metric_named(str(self.eval_metric), "eval_metric")
        for name in _COUNTS:
            check_count(name, getattr(self, name), _COUNTS[name])
        if needs_of(metric) != TOKENS and not self.eval_decode and self.schedule != "train":
            raise UserError(f"`eval_metric={self.eval_metric}` needs `eval_decode`", status=2)
        if self.decode_hparams and not self.eval_decode:
            raise UserError("`decode_hparams` needs `eval_decode`", status=2)
        if self.eval_lines is not None and not self.eval_decode:
            raise UserError("`eval_lines` needs `eval_decode`", status=2)


def check_count(name: str, value: object, least: int) -> None:
    """Raises UserError unless an argument is a whole number of at least `least`, or None."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"`{name}` takes a whole number, not {value!r}", status=2)
    if value < least:
        raise UserError(f"`{name}={value}` is too small: it must be at least {least}", status=2)


class TrainKeywords(TypedDict, total=False):
    """The fields of `TrainOptions` that callers give, for type checkers: arguments of `t2t_lite.train`."""

    schedule: str
    save_checkpoints_secs: int
    save_checkpoints_steps: int
    keep_checkpoint_max: int
    keep_best_n: int
    eval_metric: str
    eval_decode: bool
    decode_hparams: str | Mapping[str, SettingValue]
    eval_lines: int | None
    early_stopping_patience: int
    eval_wait_secs: int
    log_step_count_steps: int
    random_seed: int
    warm_start_from: str | PathLike | None
    max_tokens_per_replica: int | None
    xla_compile: bool
    peak_tflops: float | None
    profile: bool
