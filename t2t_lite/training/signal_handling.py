"""Signals that stop a training: it finishes the step, saves a checkpoint and prints how to resume."""

import contextlib
import os
import signal
import threading


class StopSignals:
    """Records SIGTERM and SIGINT. The first one is only recorded; the second one has its default effect.

    Use as a context manager. Outside the main thread, the only one that receives signals, it records nothing.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.number = 0  # number of the received signal, 0: none

    def __enter__(self):
        receives_signals = threading.current_thread() is threading.main_thread()
        self._before = {number: signal.signal(number, self._note) for number in self.SIGNALS if receives_signals}
        return self

    def __exit__(self, *exception):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number, frame):
        del frame
        self.number = number
        with contextlib.suppress(OSError):  # os.write, because the signal may have interrupted a print
            os.write(2, b"stopping after this step and its checkpoint; a second signal stops immediately\n")
        self.__exit__()
