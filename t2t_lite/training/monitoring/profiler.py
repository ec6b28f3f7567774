"""TensorBoard traces of a few steps (--profile)."""

from pathlib import Path

import tensorflow as tf

# The steps to trace, counted from where the run started or resumed.
PROFILED = range(5, 10)


class Profiler:
    """Traces the steps in `PROFILED` into a folder; None: no trace."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._steps = 0

    def after_step(self) -> None:
        """Counts a step, and starts or stops tracing."""
        self._steps += 1
        if self._directory is None:
            return
        if self._steps == PROFILED.start:
            tf.profiler.experimental.start(str(self._directory))
        elif self._steps == PROFILED.stop:
            tf.profiler.experimental.stop()
