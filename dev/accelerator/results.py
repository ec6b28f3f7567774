"""The results of one process, in a JSON file that is always complete."""

import contextlib
import json
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from t2t_lite.files import write_text


class Results:
    """Collects figures and writes all of them to a file after each measurement.

    Args:
      file: the JSON file.
      figures: the figures so far.
      deadline: the `time.monotonic` time after which no measurement should start; None: there is none.
    """

    def __init__(self, file: Path, figures: dict[str, dict], deadline: float | None = None) -> None:
        self.figures, self._file, self._deadline = figures, file, deadline

    def write(self) -> None:
        """Writes the file."""
        write_text(self._file, json.dumps(self.figures, indent=1))

    def has_time(self, seconds: float = 0.0) -> bool:
        """Returns whether a measurement that takes the given time can still start."""
        return self._deadline is None or time.monotonic() + seconds <= self._deadline

    def note_no_time(self, *where: str) -> None:
        """Records that there was no time for a measurement."""
        self.figures.setdefault("errors", {})[": ".join(where)] = ["no time left"]
        self.write()

    @contextlib.contextmanager
    def noted(self, *where: str) -> Iterator[None]:
        """Writes the file after the block. Records an error in the block, so that other measurements continue."""
        try:
            yield
        except Exception as error:  # devices and libraries may raise anything
            lines = traceback.format_exc().splitlines()
            self.figures.setdefault("errors", {})[": ".join(where)] = [f"{error}"[:1000], *lines[-6:]]
        self.write()
