"""Callbacks: user code that follows a training run and can stop it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from t2t_lite.errors import UserError


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
