"""The library's logger. Only commands print; a program decides what it shows of the logger "t2t_lite"."""

import logging
import sys

LOG = logging.getLogger("t2t_lite")


class _Output(logging.StreamHandler):
    """Writes to what is standard output at the time, because notebooks and tests replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line."""
        self.stream = sys.stdout
        super().emit(record)


def log_to_stdout(level: int | str = logging.INFO) -> None:
    """Shows the library's progress as text on standard output, as in a notebook. Calling it again changes the level.

    Args:
      level: the lowest level to show; "WARNING" hides progress.
    """
    for handler in [handler for handler in LOG.handlers if isinstance(handler, _Output)]:
        LOG.removeHandler(handler)
    handler = _Output()
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.setLevel(level)
    LOG.addHandler(handler)
    if not LOG.isEnabledFor(handler.level):  # never less for other handlers
        LOG.setLevel(handler.level)
    LOG.propagate = False
