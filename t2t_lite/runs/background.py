"""Writes checkpoints in a thread, so that the training does not wait for the disk."""

import threading
from collections.abc import Callable
from pathlib import Path


class BackgroundWriter:
    """Writes one checkpoint at a time in a thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._step = 0
        self._path: Path | None = None
        self._error: BaseException | None = None

    def start(self, step: int, write: Callable[[], Path]) -> None:
        """Starts to write the checkpoint of a step; `write` returns its path. The previous one must be taken first."""
        if self._thread:
            raise RuntimeError("another checkpoint is being written; call take() first")

        def run() -> None:
            try:
                self._path = write()
            except BaseException as error:  # raised again in the caller's thread
                self._error = error

        self._step, self._path, self._error = step, None, None
        # A daemon, because a second signal ends the process at once; an unfinished checkpoint does not count.
        self._thread = threading.Thread(target=run, daemon=True, name="checkpoint")
        self._thread.start()

    def take(self, wait: bool) -> tuple[int, Path] | None:
        """Returns the step and path of a checkpoint once it is written, and forgets it; else None.

        Raises UserError if the checkpoint could not be written.
        """
        if self._thread is None or (not wait and self._thread.is_alive()):
            return None
        self._thread.join()
        self._thread = None
        if self._error:
            raise self._error
        return None if self._path is None else (self._step, self._path)

    def wait(self) -> None:
        if self._thread:
            self._thread.join()
