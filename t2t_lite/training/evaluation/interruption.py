"""Ends an evaluation when a signal has asked the training to stop."""

import threading
import time

import numpy as np
import tensorflow as tf

from t2t_lite.training.signal_handling import StopSignals
from t2t_lite.training.strategy import all_reduce_sum

# Seconds between two messages of a worker that the others wait for.
_PAUSE = 0.25


class Interrupted(Exception):
    """A signal has asked the training to stop. All workers raise it at the same place."""


class Interruption:
    """Checks, many times in an evaluation, whether a signal has reached any worker; without signals it never has."""

    def __init__(self, strategy: tf.distribute.Strategy, signals: StopSignals | None) -> None:
        self._strategy, self._signals = strategy, signals
        self._is_interrupted, self._next = False, 0.0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises Interrupted if a signal has reached any worker. Every worker must call it together."""
        self._exchange(is_done=False)

    def check_while_others_wait(self) -> None:
        """Raises the same on the only worker that works, from any thread; the others call `wait`."""
        with self._lock:
            if self._is_interrupted:
                raise Interrupted
            if time.monotonic() >= self._next:
                self._exchange(is_done=False)
                self._next = time.monotonic() + _PAUSE

    def end_waiting(self) -> None:
        """Lets the others go on. It raises Interrupted on all if a signal has reached one of them."""
        self._exchange(is_done=True)

    def wait(self) -> None:
        """Waits until the other worker calls `end_waiting`. Raises Interrupted as that does."""
        while not self._exchange(is_done=False):
            pass

    def _exchange(self, is_done: bool) -> bool:
        """Tells the other workers of a signal and of the end of the work, and returns whether it has ended."""
        if self._signals is None:
            return is_done
        mine = np.array([self._signals.number > 0, is_done], float)
        has_signal, done = all_reduce_sum(self._strategy, mine) > 0
        self._is_interrupted = bool(has_signal)
        if has_signal:
            raise Interrupted
        return bool(done)
