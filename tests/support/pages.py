"""Pages of the documentation whose blocks a test runs as a reader does, one after the other in one folder."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[2] / "docs"


class Block(NamedTuple):
    """A block of the page: its kind (sh, python, or text for the output of the block before) and its content."""

    kind: str
    content: str


def blocks(page: str) -> list[Block]:
    """Returns the blocks of a page of docs; every fence must name one of the three kinds."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = [Block(*each) for each in re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    assert {block.kind for block in found} <= {"sh", "python", "text"}
    return found


class Reader:
    """Runs the blocks of a page in a folder. A server runs in the background, as in a second terminal, until the next.

    Args:
      page: its name in docs.
      folder: where the blocks run.
      environment: of all processes.
      changes: texts to replace in the blocks, each of which must occur.
      skipped: how the blocks begin that are not run; each must occur.
    """

    def __init__(
        self, page: str, folder: Path, environment: dict[str, str], changes: dict[str, str], skipped: Sequence[str] = ()
    ) -> None:
        self.blocks, self.folder, self.environment = blocks(page), folder, environment
        self.log = folder / "server.log"
        self.server: subprocess.Popen | None = None
        self.changes, self.skipped = changes, tuple(skipped)
        whole = "\n".join(block.content for block in self.blocks)
        assert [text for text in [*changes, *skipped] if text not in whole] == []

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *error: object) -> None:
        self._end_server()

    def outputs(self) -> Iterator[tuple[str, str]]:
        """Runs each block of the page, and yields the block as it is printed there and what it wrote.

        Of a server, that is what it wrote until it was ready.
        """
        for kind, block in self.blocks:
            content = block
            for before, after in self.changes.items():
                content = content.replace(before, after)
            if kind == "python":  # the first line names the file that the reader saves it as
                name = re.match(r"# (\w+\.py)\n", content)[1]
                (self.folder / name).write_text(content, encoding="utf-8")
            elif kind == "sh" and "t2t-lite-serve" in content:
                self._end_server()
                self._serve(content)
                yield block, self._read_until("ready after")
            elif kind == "sh" and not content.startswith(self.skipped):
                yield block, self._run(content)

    def _read_until(self, text: str) -> str:
        """Waits until the server has written a text, and returns all that it has written."""
        while text not in (written := self.log.read_text(encoding="utf-8")):
            assert self.server.poll() is None, written
            time.sleep(0.05)
        return written

    def _end_server(self) -> None:
        """Ends the server, if one runs, as Ctrl-C does."""
        if self.server and self.server.poll() is None:
            self.server.send_signal(signal.SIGINT)
            self.server.wait()

    def _options(self) -> dict:
        return {"cwd": self.folder, "env": self.environment, "stderr": subprocess.STDOUT, "text": True}

    def _run(self, content: str) -> str:
        shell = ["bash", "-e", "-c", content]
        done = subprocess.run(shell, stdout=subprocess.PIPE, check=False, **self._options())
        assert done.returncode == 0, f"{content}\n{done.stdout}"
        return done.stdout

    def _serve(self, content: str) -> None:
        with open(self.log, "w", encoding="utf-8") as log:  # `exec`: the process is the server, not a shell
            self.server = subprocess.Popen(["bash", "-c", f"exec {content}"], stdout=log, **self._options())
