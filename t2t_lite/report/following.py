"""Keeps the report of a training up to date."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from t2t_lite.log import LOG
from t2t_lite.report.writing import write_report
from t2t_lite.training.callbacks import Callback

REPORT = "report.html"
# A report is not written again before this many times the time that it took: a twentieth of the training at most.
_PAUSE = 20


class ReportCallback(Callback):
    """Writes the report of a run after its checkpoints and evaluations. An error is a warning.

    Args:
      output_dir: the run directory.
      evaluates: whether an evaluation follows each checkpoint, so that the report waits for it.
    """

    def __init__(self, output_dir: Path, evaluates: bool) -> None:
        self._output_dir, self._evaluates = output_dir, evaluates
        self._next = 0.0
        self._has_begun = self._has_failed = False

    @contextlib.contextmanager
    def until_the_end(self) -> Iterator[None]:
        """Writes the report when the block ends; after an error too, if steps were made."""
        try:
            yield
        except Exception:
            if self._has_begun:
                self.write()
            raise
        self.write()

    def on_step(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Callback`."""
        self._has_begun = True

    def on_checkpoint(self, step: int, path: Path) -> None:
        """See `Callback`."""
        if not self._evaluates:
            self._write_if_due()

    def on_evaluation(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Callback`."""
        self._write_if_due()

    def write(self) -> None:
        """Writes the report now."""
        file = self._output_dir / REPORT
        try:
            write_report([self._output_dir], file)
        except Exception as error:  # whatever is wrong with a report, the training goes on
            if not self._has_failed:
                LOG.warning(f"{file} cannot be written ({error}); the training goes on without it")
            self._has_failed = True

    def _write_if_due(self) -> None:
        start = time.monotonic()
        if start >= self._next:
            self.write()
            end = time.monotonic()
            self._next = end + _PAUSE * (end - start)
