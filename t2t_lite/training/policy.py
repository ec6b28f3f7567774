"""When a run saves, evaluates and stops."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

import numpy as np
import tensorflow as tf

from t2t_lite.training.devices import all_reduce_sum


class CheckpointSchedule:
    """Decides when a checkpoint is due: at the last step, and at intervals counted in steps or in seconds."""

    def __init__(self, steps: int, seconds: int, last_step: int) -> None:
        """Sets the interval: `steps` if it is not 0, else `seconds` after the previous checkpoint."""
        self._steps, self._seconds, self._last_step = steps, seconds, last_step
        self.restart()

    def is_due_by_steps(self, step: int) -> bool:
        """Returns whether a checkpoint is due after `step`: at the end of an interval in steps, or at the last step."""
        return step >= self._last_step or bool(self._steps and step % self._steps == 0)

    def is_due_by_time(self) -> bool:
        """Returns whether the interval in seconds has passed; False if the interval is in steps."""
        return not self._steps and time.monotonic() - self._since >= self._seconds

    def restart(self) -> None:
        self._since = time.monotonic()


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
        del frame
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
        mine = np.array([self._signals.number > 0, is_done], float)
        has_signal, done = all_reduce_sum(self._strategy, mine) > 0
        self._is_interrupted = bool(has_signal)
        if has_signal:
            raise Interrupted
        return bool(done)
