"""Output files that grow block by block, so that an interrupted run goes on from what is whole."""

import contextlib
import gzip
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.files import check_output, growing_path, progress_path, write_text


class ResumableWriter:
    """Files with a line for each line of an input. They have their names when they are whole.

    Beside the first of them, "<name>.progress" tells how far they are after each block. A file whose name ends in .gz
    is compressed. A device or a pipe, such as /dev/null, is written to as it is.

    Args:
      paths: the files.
      made_by: what the lines depend on besides the input, any JSON; a run with something else starts anew.

    Attributes:
      notes: what was noted with the last block, any JSON; {} if nothing was, or a run starts anew.

    Raises:
      UserError: if one of the paths is a directory, its folder is not there, or one is named twice.
    """

    def __init__(self, paths: Sequence[Path], made_by):
        for number, path in enumerate(paths):
            check_output(path, str(path))
            if path.resolve() in [other.resolve() for other in paths[:number]]:
                raise UserError(f"{path} is asked for twice; give each output a file of its own")
        self._paths = paths
        self._made_by = json.loads(json.dumps(made_by))  # as it will be read back
        self._progress = progress_path(paths[0])
        # What is no regular file cannot be gone on with.
        self._in_place = [path.exists() and not path.is_file() for path in paths]
        self._partials = [path if in_place else growing_path(path) for path, in_place in zip(paths, self._in_place)]
        self._files = []
        self.notes = {}
        self._digest = hashlib.sha256()
        self._lines = 0

    def rest_of(self, read: Callable[[], Iterator], say: Callable[[str], None]) -> Iterator:
        """Returns those of the input's lines that the files do not answer yet; the files are then ready for them.

        Args:
          read: gives the input's lines from the first one on, each a text or a tuple of texts.
          say: takes a line about where it goes on.
        """
        before = self._known()
        if before:
            lines = read()
            for line in itertools.islice(lines, before["lines"]):
                self._count([line])
            if (self._lines, self._digest.hexdigest()) == (before["lines"], before["sha256"]):
                for partial, size in zip(self._partials, before["sizes"]):
                    os.truncate(partial, size)
                self._open()
                self.notes = before.get("notes", {})
                say(f"goes on after line {self._lines:,}: what is before it is in {self._partials[0]}")
                return lines
            say(f"starts anew: {self._partials[0]} was made from another input")
        self._digest, self._lines = hashlib.sha256(), 0
        self._progress.unlink(missing_ok=True)  # before what it tells of is gone
        for partial, in_place in zip(self._partials, self._in_place):
            if not in_place:
                partial.write_bytes(b"")
        self._open()
        return read()

    @property
    def lines(self) -> int:
        """How many lines of the input the files answer."""
        return self._lines

    def append(self, lines: Sequence, answers: Sequence[Sequence[str]], notes=None) -> None:
        """Writes a block.

        Args:
          lines: lines of the input.
          answers: for each file its lines, as many.
          notes: what a run that goes on has to know of all blocks so far, any JSON.
        """
        for path, file, in_place, texts in zip(self._paths, self._files, self._in_place, answers, strict=True):
            block = "".join(text + "\n" for text in texts).encode("utf-8", errors="replace")
            file.write(gzip.compress(block, mtime=0) if path.suffix == ".gz" else block)
            file.flush()
            if not in_place:
                os.fsync(file.fileno())  # what the progress tells of is on the disk
        self._count(lines)
        if not any(self._in_place):
            state = {
                "made_by": self._made_by,
                "lines": self._lines,
                "sha256": self._digest.hexdigest(),
                "sizes": [partial.stat().st_size for partial in self._partials],
                "notes": notes or {},
            }
            write_text(self._progress, json.dumps(state) + "\n")

    @contextlib.contextmanager
    def removed_if_empty(self) -> Iterator[None]:
        """Leaves nothing behind if the block fails before the first line is answered."""
        try:
            yield
        except BaseException:
            if not self._lines:
                for partial, in_place in zip(self._partials, self._in_place):
                    if not in_place:
                        partial.unlink(missing_ok=True)
            raise

    def finish(self) -> None:
        """Gives the files their names."""
        for path, partial, file in zip(self._paths, self._partials, self._files):
            if path.suffix == ".gz" and not self._lines:
                file.write(gzip.compress(b"", mtime=0))  # nothing at all would be no gzip file
            file.close()
            if path != partial:
                os.replace(partial, path)
        self._progress.unlink(missing_ok=True)

    def _open(self) -> None:
        # Once: a pipe ends for its reader when it is closed. They are closed when they are whole.
        self._files = [open(partial, "ab") for partial in self._partials]  # noqa: SIM115

    def _count(self, lines: Sequence) -> None:
        for line in lines:
            self._digest.update(repr(line).encode("utf-8", errors="replace") + b"\n")
        self._lines += len(lines)

    def _known(self) -> dict | None:
        """Returns what the last block left behind, if it can be gone on with."""
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
