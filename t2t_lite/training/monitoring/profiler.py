"""TensorBoard traces of a few steps (--profile)."""

from pathlib import Path

import tensorflow as tf

# The steps to trace, counted from where the run started or resumed.
PROFILED = range(5, 10)


class Profiler:
    """Traces the steps in `PROFILED` into a folder; None: no trace. The trace starts and stops only between calls."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._steps, self._stop = 0, None

    def after_steps(self, number: int) -> None:
        self._steps += number
        if self._directory is None:
            return
        if self._stop is None and self._steps >= PROFILED.start:
            self._stop = self._steps + len(PROFILED)
            tf.profiler.experimental.start(str(self._directory))
        elif self._stop is not None and self._steps >= self._stop:
            self._directory = None
            tf.profiler.experimental.stop()
