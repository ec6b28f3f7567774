"""When a training run saves, evaluates and stops: the questions that the loop asks, and signals that stop a run."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.runs import evaluations
from t2t_lite.runs.checkpoint_files import remove_old
from t2t_lite.training.devices import all_gather, all_reduce_sum, has_workers
from t2t_lite.training.options import Callbacks, TrainOptions

# The reasons why a run ends.
LAST_STEP, EARLY_STOPPING, SIGNAL, CALLBACK = "last step", "early stopping", "signal", "callback"
# Minimum seconds between two messages from a worker to the workers that wait for it.
_PAUSE = 0.25


class StopSignals:
    """Records the first SIGTERM or SIGINT instead of ending the process; a second signal has its usual effect.

    Use it as a context manager. Outside the main thread, it records nothing, because only the main thread receives
    signals. `on_signal` is called in the signal handler.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, on_signal: Callable[[], None] = lambda: None) -> None:
        self._on_signal = on_signal
        self.number = 0  # number of the received signal; 0: none

    def __enter__(self) -> "StopSignals":
        receives_signals = threading.current_thread() is threading.main_thread()
        self._before = {number: signal.signal(number, self._note) for number in self.SIGNALS if receives_signals}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._on_signal()
        self.__exit__()


class Interrupted(Exception):
    """A signal asked the run to stop. All workers raise this exception at the same point."""


class Interruption:
    """Checks during an evaluation whether a signal has reached any worker; with `signals=None`, none ever has."""

    def __init__(self, strategy: tf.distribute.Strategy, signals: StopSignals | None) -> None:
        self._strategy, self._signals = strategy, signals
        self._is_interrupted, self._next = False, 0.0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises Interrupted if a signal has reached any worker. All workers must call it together."""
        self._exchange(is_done=False)

    def check_while_others_wait(self) -> None:
        """Raises Interrupted as `check` does; for the one busy worker, in any thread, while the others call `wait`."""
        with self._lock:
            if self._is_interrupted:
                raise Interrupted
            if time.monotonic() >= self._next:
                self._exchange(is_done=False)
                self._next = time.monotonic() + _PAUSE

    def end_waiting(self) -> None:
        """Lets the other workers continue. Raises Interrupted on all workers if a signal has reached any of them."""
        self._exchange(is_done=True)

    def wait(self) -> None:
        """Waits until the busy worker calls `end_waiting`. Raises Interrupted as `end_waiting` does."""
        while not self._exchange(is_done=False):
            pass

    def _exchange(self, is_done: bool) -> bool:
        """Tells the other workers whether a signal arrived and whether the work is done. Returns whether it is done.

        Raises Interrupted on all workers if a signal has reached any of them.
        """
        if self._signals is None:
            return is_done
        has_signal, done = all_reduce_sum(self._strategy, np.array([self._signals.number > 0, is_done], float)) > 0
        self._is_interrupted = bool(has_signal)
        if has_signal:
            raise Interrupted
        return bool(done)


class Ending(NamedTuple):
    step: int  # the last completed step
    reason: str  # LAST_STEP, EARLY_STOPPING, SIGNAL or CALLBACK
    signal: int = 0  # the number of the signal, if a signal was the reason


class Wishes(NamedTuple):
    """What one worker, or any of several workers, wants to do after the next steps."""

    stop: bool
    save: bool


class Policy:
    """Decides when a run saves, evaluates and stops.

    A checkpoint is due at the last step, and at intervals counted in steps or in seconds. Each checkpoint is evaluated.
    Decisions about evaluations depend only on the run directory, so that a resumed run makes the same ones. Only the
    chief reads and writes there. `say` receives the reason why a run ends. All workers must create it together.
    """

    def __init__(
        self,
        path: Path,
        options: TrainOptions,
        last_step: int,
        strategy: tf.distribute.Strategy,
        is_chief: bool,
        signals: StopSignals,
        callbacks: Callbacks,
        say: Callable[[str], None],
    ) -> None:
        self._path, self._options, self._last_step = path, options, last_step
        self._strategy, self._is_chief = strategy, is_chief
        self._signals, self._callbacks, self._say = signals, callbacks, say
        self.evaluates = options.schedule == "train_and_evaluate"
        # The interval in steps; 0: it is in seconds.
        self.checkpoint_steps = int(all_gather(strategy, options.save_checkpoints_steps)[0])
        self.restart()

    def restart(self) -> None:
        """Begins an interval in seconds."""
        self._since = time.monotonic()

    def wishes(self) -> Wishes:
        """Returns what this worker wants; the workers tell each other with every step."""
        is_due = not self.checkpoint_steps and time.monotonic() - self._since >= self._options.save_checkpoints_secs
        return Wishes(self._signals.number > 0 or self._callbacks.stop, self._is_chief and is_due)

    def is_decided_here(self, wishes: Wishes) -> bool:
        """Returns whether there are wishes that this process can follow without asking other workers."""
        return any(wishes) and not has_workers(self._strategy)

    def saves_at(self, step: int) -> bool:
        """Returns whether a checkpoint is due by the number of the step."""
        return step >= self._last_step or bool(self.checkpoint_steps and step % self.checkpoint_steps == 0)

    def is_stopped_here(self, step: int) -> bool:
        """Returns whether a callback stops the run now: before its last step, and with no other workers to ask."""
        return self._callbacks.stop and step < self._last_step and not has_workers(self._strategy)

    def announce_evaluation(self, step: int) -> None:
        """Records that a checkpoint will be evaluated, so that a resumed run does not skip that."""
        if self.evaluates and self._is_chief:
            evaluations.announce_evaluation(self._path, step)

    def best_steps(self) -> list[int]:
        """Returns the steps of the best checkpoints, which are kept."""
        metric, number = self._options.eval_metric, self._options.keep_best_n
        return evaluations.best_steps(evaluations.read_evaluations(self._path), metric, number)

    def misses_evaluation(self, step: int) -> bool:
        """Returns whether the last checkpoint's evaluation is due but missing. All workers must call it together."""
        if not self.evaluates or not step:
            return False
        every = self._options.save_checkpoints_steps
        is_due = self._is_chief and evaluations.is_evaluation_due(self._path, step)
        if self._is_chief and every and step % every == 0:  # earlier versions did not announce evaluations
            is_due = step not in evaluations.read_evaluations(self._path)
        return bool(all_gather(self._strategy, float(is_due)).any())

    def after_evaluation(self, step: int, figures: dict[str, float]) -> None:
        """Records an evaluation, which may have pushed an earlier checkpoint out of the best ones."""
        evaluations.add_evaluation(self._path, step, figures)
        evaluations.end_announcement(self._path)
        remove_old(self._path, self._options.keep_checkpoint_max, {*self.best_steps(), step})

    def is_without_gain(self) -> bool:
        """Returns whether early stopping ends the run. All workers must call it together."""
        patience, metric = self._options.early_stopping_patience, self._options.eval_metric
        if not patience:
            return False
        figures = evaluations.read_evaluations(self._path) if self._is_chief else {}
        without_gain = evaluations.evaluations_without_gain(figures, metric)
        # Only the chief reads evaluations; the other workers contribute False.
        if not all_gather(self._strategy, float(without_gain >= patience)).any():
            return False
        best = ", ".join(f"ckpt-{step}" for step in evaluations.best_steps(figures, metric, 1))
        self._say(
            f"stopped early: {without_gain} evaluations without a better {metric} than that of {best}; raise "
            f"`early_stopping_patience` to continue"
        )
        return True

    def is_stopped(self, step: int) -> bool:
        """Returns whether a signal or a callback stops the run before its last step. All workers call it together."""
        has_signal = all_gather(self._strategy, float(self._signals.number > 0)).any()
        return self.is_stopped_here(step) or bool(has_signal and step < self._last_step)

    def stopped(self, step: int, where: str = "after") -> Ending:
        """Says who stopped the run, and returns its ending. The step must be saved."""
        if number := self._signals.number:
            name = signal.Signals(number).name
        else:
            name = "a callback" if self._callbacks.stop else "another worker"
        how = "resume" if where == "after" else "evaluate this step and resume"
        self._say(f"stopped by {name} {where} step {step}, which is saved; start the run again to {how}")
        if self._callbacks.stop and not number:
            return Ending(step, CALLBACK)
        return Ending(step, SIGNAL, number or signal.SIGTERM)
