"""A command run as a user runs it: in a process of its own, from its start to its end."""

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_lite.benchmark.process import in_a_process
from t2t_lite.errors import UserError


class WholeCommand(NamedTuple):
    """A run of a command."""

    seconds: float
    peak_bytes: int
    outputs: list[str]  # the lines of its standard output


def whole_command(command: Sequence[str], cache: Path) -> WholeCommand:
    """Runs a command that keeps what it compiles in the folder `cache`.

    Raises:
      UserError: with the command's last message, if it fails.
    """
    # From a small process: Linux counts the memory of the process that starts a command as the command's own.
    status, error, measured = in_a_process(_run, list(command), str(cache))
    if status:
        raise UserError(error or f"exit status {status}")
    return measured


def _run(command: list[str], cache: str) -> tuple[int, str, WholeCommand]:
    """Returns the exit status, the last line of standard error, and what was measured."""
    environment = os.environ | {"XDG_CACHE_HOME": cache}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output, tempfile.TemporaryFile("w+") as messages:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=messages, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        messages.seek(0)
        lines = output.read().split("\n")[:-1]
        last = (messages.read().splitlines() or [""])[-1]
        return process.returncode, last, WholeCommand(seconds, usage.ru_maxrss * 1024, lines)
