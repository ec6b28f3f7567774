"""Signals that ask a training to end: it finishes its step, saves and says how to go on."""

import signal


class Interruption:
    """Notes SIGTERM and SIGINT while it is open. The second one of them ends the process as if it were not.

    Use as a context manager, in the main thread.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.number = 0  # of the signal that came, 0: none

    def __enter__(self):
        self._before = {number: signal.signal(number, self._note) for number in self.SIGNALS}
        return self

    def __exit__(self, *exception):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number, frame):
        del frame
        self.number = number
        self.__exit__()
