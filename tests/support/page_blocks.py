"""The code blocks of all pages: their fences, their command lines, and how a command line is run or only parsed."""

import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from support.commands import user_environment
from support.server import Server
from t2t_lite.bin.cli import parse_with_problem
from t2t_lite.config import DecodeHParams
from t2t_lite.registry import HPARAMS

ROOT = Path(__file__).resolve().parents[2]
# Directly before the fence of a block that no test runs; the site does not show comments.
MARK = re.compile(r"<!-- not run by a test: (.+) -->")


class Fence(NamedTuple):
    """A code block of a page: the line of its fence, its kind (as sh), its content, and why no test runs it, if so."""

    page: str
    line: int
    kind: str
    content: str
    reason: str = ""

    @property
    def place(self) -> str:
        """Where the block is, for messages."""
        first = self.content.partition("\n")[0]
        return f"{self.page}, line {self.line}: the block that begins with {first!r}"


def fences(page: str) -> list[Fence]:
    """Returns the code blocks of a page, given by its path in the checkout."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for block in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        above = text[: block.start()].removesuffix("\n").rpartition("\n")[2]
        mark = MARK.fullmatch(above)
        line = text.count("\n", 0, block.start()) + 1
        found.append(Fence(page, line, block[1], block[2], mark[1] if mark else ""))
    return found


def command_lines(content: str) -> list[str]:
    """Returns the commands of a block, each in one line, without comments."""
    lines = [re.sub(r"(^|\s+)#(\s.*)?$", "", line) for line in content.replace("\\\n", "").splitlines()]
    return [line for line in lines if line.strip()]


def commands_within(content: str) -> list[list[str]]:
    """Returns the t2t-lite commands of a block, also those behind a pipe or in a loop, as lists of words."""
    found = (re.search(r"\bt2t-lite-[a-z]+( .*)?$", line) for line in command_lines(content))
    return [shlex.split(each[0]) for each in found if each]


def module_of(program: str) -> str:
    """Returns the name of a command's module."""
    return {"t2t-lite-import": "import_model"}.get(program, program.removeprefix("t2t-lite-"))


def parse(words: list[str]) -> None:
    """Parses a command as it would do: its flags, problem, hparam set and settings must exist."""
    parser = importlib.import_module(f"t2t_lite.bin.{module_of(words[0])}").make_parser()
    arguments = vars(parse_with_problem(parser, words[1:]))
    if names := arguments.get("hparams_set"):
        for name in names.split(","):
            HPARAMS[name]().override(arguments.get("hparams") or "")
    if settings := arguments.get("decode_hparams"):
        DecodeHParams().override(settings)


class Shell:
    """Runs the blocks of pages in the current folder, commands of this package in this process.

    Args:
      command: the fixture of that name.
      environment: of all other processes.
    """

    def __init__(self, command: Callable[..., subprocess.CompletedProcess], environment: dict[str, str]) -> None:
        self._command, self._environment = command, environment

    def block(self, kind: str, content: str, status: int = 0) -> str:
        """Runs a block, and returns what it has printed; each of its commands must end with the status."""
        if kind == "python":
            return self._process([sys.executable, "-c", content])
        if kind == "toml":
            name = content.partition("\n")[0].removeprefix("# ")  # the first line names the file
            Path(name).write_text(content, encoding="utf-8")
            return ""
        return "".join(self.line(line, status) for line in command_lines(content))

    def line(self, line: str, status: int = 0) -> str:
        """Runs a command line, such as `echo a | t2t-lite-decoder --output_dir=run`."""
        source, _, last = line.rpartition(" | ")
        program, *flags = shlex.split(last)
        if not program.startswith("t2t-lite-"):
            return self._process(["bash", "-c", line])
        if program == "t2t-lite-serve":
            with Server(*flags, environment=self._environment) as server:
                return "\n".join(server.lines)
        stdin = self._process(["bash", "-c", source]).encode() if source else b""
        done = self._command(module_of(program), *flags, stdin=stdin)
        assert done.returncode == status, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def _process(self, words: list[str]) -> str:
        environment = user_environment(**self._environment)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def names_of_tests(file: Path) -> Iterator[str]:
    """Yields the names of the tests in a file."""
    yield from re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
