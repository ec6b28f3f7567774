"""Shows the library's progress as log lines. Commands show tables and a progress bar instead."""

import logging
import math
import sys
import time
from typing import Any

LOG = logging.getLogger("t2t_lite")


class Display:
    """Shows the progress of data generation and training as lines of the logger "t2t_lite", at level INFO."""

    LINE_SECONDS = 30.0  # between lines while nothing else is shown
    _next_line = math.inf
    _last_step = 0

    def say(self, line: str) -> None:
        """Shows a line."""
        LOG.info(line)

    def text(self, text: str) -> None:
        """Shows a user's text unchanged."""
        self.say(text)

    def text_checks(self, checks: Any) -> None:  # noqa: ANN401  display comes before data
        """Shows what the checks of the user's text found, a `TextChecks` of `t2t_lite.data.generation.text_checks`."""
        for finding in checks.findings():
            if finding.count:
                lines = ", ".join(map(str, finding.lines))
                done = "dropped" if finding.dropped else "kept"
                self.say(f"{finding.count:,} of {checks.pairs:,} pairs {done}: {finding.kind} (lines {lines})")

    def start_training(self, first_step: int, last_step: int) -> None:
        """Prepares to show the steps after `first_step`, up to `last_step`."""
        self._last_step, self._next_line = last_step, time.monotonic() + self.LINE_SECONDS

    def after_step(self, step: int) -> None:
        """Shows that a step is complete, `LINE_SECONDS` after the last line."""
        self.evaluating(f"step {step}/{self._last_step}")

    def report(self, step: int, last_step: int, figures: str, left: str) -> None:
        """Shows a line with the figures of a step and the time left."""
        self.say(f"step {step}/{last_step}  {figures}  {left}")
        self._next_line = time.monotonic() + self.LINE_SECONDS

    def start_evaluation(self) -> None:
        """Prepares for an evaluation."""
        self._next_line = time.monotonic() + self.LINE_SECONDS

    def evaluating(self, line: str) -> None:
        """Shows an evaluation's progress, at most once every `LINE_SECONDS`. Called often, from any thread."""
        if (now := time.monotonic()) >= self._next_line:
            self._next_line = now + self.LINE_SECONDS
            self.say(line)

    def end_evaluation(self) -> None:
        """Ends what `start_evaluation` began."""
        self._next_line = time.monotonic() + self.LINE_SECONDS

    def stopping(self) -> None:
        """Shows that a signal told training to stop. Called in the signal handler."""

    def end_training(self) -> None:
        """Ends what `start_training` began."""


def format_duration(seconds: float) -> str:
    """Formats a duration as hours, minutes and seconds: 3725.2 -> "1:02:05"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


class _Output(logging.StreamHandler):
    """Writes to the current `sys.stdout`, because notebooks and tests replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line."""
        self.stream = sys.stdout
        super().emit(record)


def log_to_stdout(level: int | str = logging.INFO) -> None:
    """Shows the library's progress as text on standard output, such as in a notebook. A second call changes the level.

    Args:
      level: the lowest level to show; "WARNING" hides progress.
    """
    for handler in [handler for handler in LOG.handlers if isinstance(handler, _Output)]:
        LOG.removeHandler(handler)
    handler = _Output()
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.setLevel(level)
    LOG.addHandler(handler)
    if not LOG.isEnabledFor(handler.level):  # never raise the logger's level, because other handlers may need it
        LOG.setLevel(handler.level)
    LOG.propagate = False
