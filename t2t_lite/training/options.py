"""What a caller gives a training: options (keywords of `t2t_lite.train`, flags of t2t-lite-trainer) and callbacks."""

import dataclasses
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.metric import TOKENS, check_metric, metric_named, metric_needs
from t2t_lite.options import Options, SettingValue, option


class Callback:
    """Follows a training run. Subclass it, override what you need, and pass a list of instances to `t2t_lite.train`.

    Each method may return True to stop the run, which then writes a checkpoint of the current step; with several
    workers, it makes a few more steps first. Starting the same run again resumes it. An exception ends the run at once;
    the existing checkpoints remain.
    """

    def on_step(self, step: int, figures: Mapping[str, float]) -> bool | None:
        """Called after each optimizer step.

        Args:
          step: the number of the step, from 1.
          figures: the metrics of this step: loss (nats per real target token, with label smoothing), nll_loss
            (without label smoothing), target_tokens, gradient_norm, learning_rate, epoch (from 1) and skipped (1 if
            loss or gradients were not finite, so that the step left the weights unchanged; else 0).
        """

    def on_checkpoint(self, step: int, path: Path) -> bool | None:
        """Called on the chief after writing a checkpoint to `path` (without suffix) and before evaluating it."""

    def on_evaluation(self, step: int, figures: Mapping[str, float]) -> bool | None:
        """Called after each complete evaluation on the dev split, with the metrics from `Evaluator`."""


def check_callbacks(callbacks: Iterable[Callback]) -> None:
    """Raises UserError if an object is not a `Callback`; Keras callbacks work only with `Model.fit`."""
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise UserError(
                f"`callbacks`: {type(callback).__module__}.{type(callback).__name__} is not a t2t_lite.Callback; "
                f"derive from that class and override on_step, on_checkpoint or on_evaluation. Keras callbacks work "
                f"only with Model.fit"
            )


class Callbacks:
    """Calls several callbacks in order, and remembers whether one of them asked to stop."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self._callbacks = list(callbacks)
        self.stop = False
        # Whether any callback follows each step, so that its metrics must be read before the next step begins.
        self.follow_steps = any(_overrides(callback, "on_step") for callback in self._callbacks)
        # Whether any callback follows each checkpoint, so that it must be written before the next step begins.
        self.follow_checkpoints = any(_overrides(callback, "on_checkpoint") for callback in self._callbacks)

    def on_step(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Callback`."""
        for callback in self._callbacks:
            self.stop |= bool(callback.on_step(step, figures))

    def on_checkpoint(self, step: int, path: Path) -> None:
        """See `Callback`."""
        for callback in self._callbacks:
            self.stop |= bool(callback.on_checkpoint(step, path))

    def on_evaluation(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Callback`."""
        for callback in self._callbacks:
            self.stop |= bool(callback.on_evaluation(step, figures))


def _overrides(callback: Callback, method: str) -> bool:
    return getattr(getattr(callback, method), "__func__", None) is not getattr(Callback, method)


_STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
_SCHEDULES = ("train_and_evaluate", "train", "eval")


@dataclasses.dataclass(frozen=True)
class TrainOptions(Options):
    """Options of a training run.

    Only `random_seed`, `warm_start_from` and `allreduce_precision` change what is learned. In a new run with
    batch_by=auto, the devices and `xla_compile` do so too; with precision=auto, the devices.
    """

    warm_start_from: str | PathLike | None = option(
        None,
        "start with the weights of another run, or of one of its checkpoints (RUN/ckpt-2000), where they fit",
        group="what to train",
        metavar="RUN",
    )
    random_seed: int = option(1, "seed for initial weights, data order and dropout", at_least=0)
    strategy: str = option(
        "auto",
        "devices to use; multi_worker: the devices of all machines in TF_CONFIG",
        group="devices",
        choices=_STRATEGIES,
    )
    worker_timeout: int = option(
        600, "with several machines, end if not all of them have started after this many seconds", at_least=1
    )
    num_gpus: int | None = option(None, "number of GPUs to use on this machine", unset="all", at_least=1)
    virtual_devices: int = option(
        0, "split the CPU into this many virtual devices and train on all of them", unset="none", at_least=0
    )
    max_tokens_per_replica: int | None = option(
        None,
        "maximum positions (pairs times the length of the longer side, padding included) that a device computes at "
        "once; larger batches use gradient accumulation",
        unset="derived from free memory",
        at_least=1,
    )
    xla_compile: bool | None = option(
        None,
        "compile loss and gradients with XLA, once for each of at most 40 batch shapes",
        unset="on GPUs, if the run has batch_by=shapes",
    )
    peak_tflops: float | None = option(
        None, "peak rate of a device, to compute its utilisation", unset="measured", above=0, metavar="TFLOPS"
    )
    steps_per_call: int | None = option(
        None,
        "maximum steps per call from the host; fewer if they would take over 3 s; signals take effect between calls",
        unset="10 on GPUs, else 1",
        at_least=1,
        metavar="N",
    )
    allreduce_precision: str = option(
        "float32",
        "type in which devices exchange gradients; bfloat16 halves the traffic and adds rounding errors",
        choices=("float32", "bfloat16"),
    )
    save_checkpoints_secs: int = option(
        600, "seconds between checkpoints; each checkpoint is evaluated", group="checkpoints and reports", at_least=1
    )
    save_checkpoints_steps: int = option(
        0, "steps between checkpoints, instead of seconds", unset="use seconds", at_least=0
    )
    keep_checkpoint_max: int = option(20, "number of latest checkpoints to keep", at_least=1)
    log_step_count_steps: int = option(100, "steps between reports", at_least=1)
    profile: bool = option(False, "write a TensorBoard trace of a few steps")
    schedule: str = option(
        "train_and_evaluate",
        "train: only train; eval: evaluate the checkpoints that another process writes; train_and_evaluate: train, and "
        "evaluate each checkpoint",
        group="evaluation",
        choices=_SCHEDULES,
    )
    eval_decode: bool = option(
        False, "translate or parse the dev split at each checkpoint, to compute the problem's metric and `eval_metric`"
    )
    decode_hparams: str | Mapping[str, SettingValue] = option(
        "", "with `eval_decode`, changes to the problem's search settings", metavar="NAME=VALUE,..."
    )
    eval_lines: int | None = option(
        None,
        "with `eval_decode`, translate or parse only the first N lines of the dev split",
        unset="all",
        at_least=1,
        metavar="N",
    )
    eval_metric: str = option(
        "loss", "metric that ranks checkpoints; output metrics, such as bleu, need `eval_decode`", metavar="NAME"
    )
    keep_best_n: int = option(0, "also keep this many of the best checkpoints", unset="none", at_least=0)
    early_stopping_patience: int = option(
        0, "stop after this many evaluations in a row without improvement", unset="never", at_least=0
    )
    eval_wait_secs: int = option(
        3600, "with `schedule=eval`, exit after this many seconds without a new checkpoint", at_least=0
    )

    free_bytes: int | None = None  # free memory of each device before the strategy is created; None: unknown

    def __post_init__(self) -> None:
        super().__post_init__()
        metric = metric_named(str(self.eval_metric), "eval_metric")
        if metric_needs(metric) != TOKENS and not self.eval_decode and self.schedule != "train":
            raise UserError(f"`eval_metric={self.eval_metric}` needs `eval_decode`", status=2)
        for name in ("decode_hparams", "eval_lines") if not self.eval_decode else ():
            if getattr(self, name) not in (None, ""):
                raise UserError(f"`{name}` needs `eval_decode`", status=2)


def check_search(decode_hparams: str | Mapping[str, SettingValue], problem: Problem) -> None:
    """Raises UserError if the search settings do not fit the problem."""
    if problem.decode_hparams.changed(decode_hparams).only_trees and not problem.writes_trees:
        raise UserError(
            f"only_trees=True is for parsing, but '{problem.name}' is not a parsing problem; omit only_trees", status=2
        )


def check_evaluation(problem: Problem, options: TrainOptions) -> None:
    """Raises UserError if evaluation options do not fit the problem."""
    if options.eval_decode and not problem.has_inputs:
        raise UserError(
            f"`eval_decode`: '{problem.name}' has no inputs, so there are no outputs to score; omit it", status=2
        )
    check_metric(options.eval_metric, problem)
    check_search(options.decode_hparams, problem)
