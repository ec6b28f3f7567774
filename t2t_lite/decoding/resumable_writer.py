"""Writes output files block by block, so that an interrupted run resumes after the last complete block."""

import contextlib
import gzip
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from t2t_lite.errors import UserError
from t2t_lite.files import check_output, growing_path, progress_path, write_text

# An input line: a text, or a tuple of texts that belong together. Only its `repr` is used.
Line = TypeVar("Line", bound="str | tuple[str, ...]")


class ResumableWriter:
    """Writes files with one line per input line. A file receives its final name once it is complete.

    The file "<name>.progress" beside the first output records the progress after each block. Files ending in .gz are
    compressed. Devices and pipes, such as /dev/null, are written in place. If `made_by`, a JSON value that identifies
    what the output depends on besides the input, changes, a run starts over.

    Attributes:
      lines: number of input lines already processed.
    """

    def __init__(self, paths: Sequence[Path], made_by: object) -> None:
        for number, path in enumerate(paths):
            check_output(path, str(path))
            if path.resolve() in [other.resolve() for other in paths[:number]]:
                raise UserError(f"{path} is named twice; use a separate file for each output")
        self._paths = paths
        self._made_by = json.loads(json.dumps(made_by))  # in the form in which it is read back
        self._progress = progress_path(paths[0])
        # Only regular files can be resumed.
        self._in_place = [path.exists() and not path.is_file() for path in paths]
        self._partials = [path if in_place else growing_path(path) for path, in_place in zip(paths, self._in_place)]
        self._files: list[BinaryIO] = []
        self._digest = hashlib.sha256()
        self.lines = 0

    def rest_of(self, read: Callable[[], Iterator[Line]], say: Callable[[str], None]) -> Iterator[Line]:
        """Opens the files and returns the input lines that have no output yet; `read` returns all input lines.

        `say` receives a line if the run resumes, or starts over because the input has changed.
        """
        before = self._known()
        if before:
            lines = read()
            for line in itertools.islice(lines, before["lines"]):
                self._count([line])
            if (self.lines, self._digest.hexdigest()) == (before["lines"], before["sha256"]):
                for partial, size in zip(self._partials, before["sizes"]):
                    os.truncate(partial, size)
                self._open()
                say(f"resuming after line {self.lines:,}: the output up to there is in {self._partials[0]}")
                return lines
            say(f"starting over: {self._partials[0]} was made from another input")
        self._digest, self.lines = hashlib.sha256(), 0
        self._progress.unlink(missing_ok=True)  # before the files that it describes are emptied
        for partial, in_place in zip(self._partials, self._in_place):
            if not in_place:
                partial.write_bytes(b"")
        self._open()
        return read()

    def append(self, lines: Sequence[Line], outputs: Sequence[Sequence[str]]) -> None:
        """Writes a block: to each file, one line per input line."""
        for path, file, in_place, texts in zip(self._paths, self._files, self._in_place, outputs, strict=True):
            block = "".join(text + "\n" for text in texts).encode("utf-8", errors="replace")
            file.write(gzip.compress(block, mtime=0) if path.suffix == ".gz" else block)
            file.flush()
            if not in_place:
                os.fsync(file.fileno())  # the block must reach the disk before the progress file records it
        self._count(lines)
        if not any(self._in_place):
            state = {
                "made_by": self._made_by,
                "lines": self.lines,
                "sha256": self._digest.hexdigest(),
                "sizes": [partial.stat().st_size for partial in self._partials],
            }
            write_text(self._progress, json.dumps(state) + "\n")

    @contextlib.contextmanager
    def removed_if_empty(self) -> Iterator[None]:
        """Removes the files if the `with` block fails before the first line is processed."""
        try:
            yield
        except BaseException:
            if not self.lines:
                for partial, in_place in zip(self._partials, self._in_place):
                    if not in_place:
                        partial.unlink(missing_ok=True)
            raise

    def finish(self) -> None:
        for path, partial, file in zip(self._paths, self._partials, self._files):
            if path.suffix == ".gz" and not self.lines:
                file.write(gzip.compress(b"", mtime=0))  # an empty file is not a valid gzip file
            file.close()
            if path != partial:
                os.replace(partial, path)
        self._progress.unlink(missing_ok=True)

    def _open(self) -> None:
        # Opened once and closed only in `finish`, because the reader of a pipe stops when the pipe is closed.
        self._files = [open(partial, "ab") for partial in self._partials]  # noqa: SIM115

    def _count(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._digest.update(repr(line).encode("utf-8", errors="replace") + b"\n")
        self.lines += len(lines)

    def _known(self) -> dict[str, Any] | None:
        """Returns the progress after the last block, or None if the run cannot be resumed."""
        try:
            state = json.loads(self._progress.read_text(encoding="utf-8"))
            there = [partial.stat().st_size for partial in self._partials]
            whole = all(0 <= size <= most for size, most in zip(state["sizes"], there, strict=True))
            numbers = all(type(number) is int for number in (state["lines"], *state["sizes"]))
            if state["made_by"] == self._made_by and whole and numbers and state["lines"] >= 0 and state["sha256"]:
                return state
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None
