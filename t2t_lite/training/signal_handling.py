"""Signals that stop a training: it finishes the step, saves a checkpoint and prints how to resume."""

import signal
import threading
from collections.abc import Callable
from types import FrameType


class StopSignals:
    """Records SIGTERM and SIGINT. The first one is only recorded; the second one has its default effect.

    Use as a context manager. Outside the main thread, the only one that receives signals, it records nothing.
    `on_signal` is called in the signal handler.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, on_signal: Callable[[], None] = lambda: None) -> None:
        self._on_signal = on_signal
        self.number = 0  # number of the received signal, 0: none

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
