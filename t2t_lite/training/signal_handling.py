"""Signals that ask a training to end: it finishes its step, saves and says how to go on."""

import contextlib
import os
import signal
import threading


class StopSignals:
    """Notes SIGTERM and SIGINT while it is open. The second one of them ends the process as if it were not.

    Use as a context manager. Outside the main thread, which alone is told of signals, it notes nothing.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.number = 0  # of the signal that came, 0: none

    def __enter__(self):
        is_told = threading.current_thread() is threading.main_thread()
        self._before = {number: signal.signal(number, self._note) for number in self.SIGNALS if is_told}
        return self

    def __exit__(self, *exception):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number, frame):
        del frame
        self.number = number
        with contextlib.suppress(OSError):  # not with print, which the signal may have come into the midst of
            os.write(2, b"stopping after this step and its checkpoint; once more ends at once\n")
        self.__exit__()
