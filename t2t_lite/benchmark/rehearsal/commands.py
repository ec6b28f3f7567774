"""Runs commands, measures them, and kills some of them on purpose."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from t2t_lite.benchmark.process import WholeCommand, whole_command
from t2t_lite.errors import UserError

_POLL_SECONDS = 0.05


class Commands:
    """Runs this package's commands.

    Args:
      program: returns the program and arguments that run a command, given its name without "t2t-lite-".
      folder: where compiled code and the output of killed commands are stored.
    """

    def __init__(self, program: Callable[[str], list[str]], folder: Path) -> None:
        self._program, self._folder = program, folder

    def run(self, command: str, *flags: str) -> WholeCommand:
        """Runs a command to its end. Raises a UserError with the name of the command if it fails."""
        try:
            return whole_command([*self._program(command), *flags], self._folder / "cache")
        except UserError as error:
            raise UserError(f"t2t-lite-{command}: {error}") from error

    def run_until(self, is_time: Callable[[], bool], command: str, *flags: str) -> float:
        """Starts a command, ends it with SIGKILL when `is_time`, and returns the seconds until then."""
        start = time.perf_counter()
        with self._started(command, flags) as process:
            self._wait(process, is_time, command)
        return time.perf_counter() - start

    def kill_worker(self, is_time: Callable[[], bool], command: str, *flags: str) -> tuple[float, float, list[str]]:
        """Starts a command that has workers, and ends the last worker with SIGKILL when `is_time`.

        Returns:
          (seconds until all workers of that moment have ended, seconds of the whole command, lines of its output).
        """
        start = time.perf_counter()
        with self._started(command, flags) as process:
            self._wait(process, is_time, command)
            workers = _children(process.pid)
            killed = time.perf_counter()
            os.kill(workers[-1], signal.SIGKILL)
            while any(worker in _children(process.pid) for worker in workers):
                time.sleep(_POLL_SECONDS)
            ended = time.perf_counter()
            status = process.wait()
        lines = self._output.read_text(encoding="utf-8").splitlines()
        if status:
            raise UserError(f"t2t-lite-{command}: {lines[-1] if lines else f'exit status {status}'}")
        return ended - killed, time.perf_counter() - start, lines

    @property
    def _output(self) -> Path:
        return self._folder / "output.txt"

    @contextlib.contextmanager
    def _started(self, command: str, flags: Sequence[str]) -> Iterator[subprocess.Popen]:
        """Starts a command, and ends it with SIGKILL when the block ends, if it still runs."""
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                [*self._program(command), *flags], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _wait(self, process: subprocess.Popen, is_time: Callable[[], bool], command: str) -> None:
        """Waits for `is_time`. Raises a UserError if the process ends before."""
        while not is_time():
            if process.poll() is not None:
                lines = self._output.read_text(encoding="utf-8").splitlines()
                raise UserError(f"t2t-lite-{command} ended too early: {lines[-1] if lines else process.returncode}")
            time.sleep(_POLL_SECONDS)


def _children(process: int) -> list[int]:
    """Returns the ids of the processes that a process has started and that still run."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children]
