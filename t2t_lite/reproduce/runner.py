"""Runs commands one after another, each in its own process, until all runs are done or the time is up."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_lite.errors import UserError
from t2t_lite.files import make_folder
from t2t_lite.reproduce.runs import Command, Run

POLL_SECONDS, RECORD_SECONDS = 1.0, 20.0
# The log of the commands' times, in the folder with the run directories.
TIMES = "times.jsonl"


class Spent(NamedTuple):
    """The time that the commands of a run have taken so far, including killed ones."""

    seconds: float
    cpu_seconds: float


class Runner:
    """Executes the commands of runs whose run directories are in one folder.

    After `budget_seconds`, the running command gets SIGTERM, and no other starts; None: no limit. `program` takes the
    name of one of the package's commands and returns the program with its first arguments.
    """

    def __init__(
        self,
        output_dir: Path,
        budget_seconds: float | None,
        program: Callable[[str], list[str]],
        say: Callable[[str], None],
    ) -> None:
        self._folder = output_dir
        self._program = program
        self._end = None if budget_seconds is None else time.monotonic() + budget_seconds
        self._say = say

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def execute(self, run: Run, command: Command) -> bool:
        """Executes a command of a run. Appends its output to a log beside the run directory.

        Returns False if it was stopped because the time was up.
        """
        make_folder(self._folder, "`output_dir`")
        log = run.directory.with_name(f"{run.name}.log")
        self._say(f"{run.name}: {command.name}")
        start = time.time()
        with open(log, "ab") as output, _interrupts_passed_on(self._say) as running:
            output.write(f"\n$ {command}\n".encode())
            output.flush()
            process = subprocess.Popen(
                [*self._program(command.name), *command.flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            running.append(process)
            # Its time is recorded regularly, so that times of killed commands are also known.
            stopped, recorded, before = False, time.monotonic(), _cpu_seconds_of_children()
            while process.poll() is None:
                if self.is_over and not stopped:
                    process.send_signal(signal.SIGTERM)  # the trainer saves a checkpoint and exits
                    stopped = True
                if time.monotonic() - recorded > RECORD_SECONDS:
                    self._record(run, command, start, _cpu_seconds(process.pid))
                    recorded = time.monotonic()
                time.sleep(POLL_SECONDS)
            self._record(run, command, start, _cpu_seconds_of_children() - before)
        if process.returncode and not stopped:
            lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
            raise UserError(f"{run.name}: {command.name} failed: {lines[-1]} (full output: {log})")
        return not stopped

    def _record(self, run: Run, command: Command, start: float, cpu: float) -> None:
        entry = {"run": run.name, "command": command.name, "start": start, "seconds": time.time() - start}
        with open(self._folder / TIMES, "a", encoding="utf-8") as file:
            # Start a new line, because a killed process may have left an incomplete one.
            file.write(f"\n{json.dumps(entry | {'cpu_seconds': cpu})}\n")


def spent(output_dir: Path, command: str = "") -> dict[str, Spent]:
    """Returns the time of each run, by name; with `command`, only the time of that command."""
    path, latest = output_dir / TIMES, {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # an incomplete line from a killed process
            entry = json.loads(line)
            if not command or entry["command"] == command:
                latest[entry["run"], entry["start"]] = Spent(float(entry["seconds"]), float(entry["cpu_seconds"]))
    total: dict[str, Spent] = {}
    for (run, _), one in latest.items():
        before = total.get(run, Spent(0.0, 0.0))
        total[run] = Spent(before.seconds + one.seconds, before.cpu_seconds + one.cpu_seconds)
    return total


@contextlib.contextmanager
def _interrupts_passed_on(say: Callable[[str], None]) -> Iterator[list[subprocess.Popen]]:
    """Sends SIGTERM to the processes in the yielded list when this process gets SIGTERM or SIGINT."""
    running: list[subprocess.Popen] = []

    def stop(number: int, frame: object) -> None:
        say(f"stopping after {signal.Signals(number).name}; run the same command again to continue")
        for process in running:
            process.send_signal(signal.SIGTERM)
            process.wait()
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield running
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _cpu_seconds(pid: int) -> float:
    """Returns the CPU time of a running process and its finished children; 0 if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _cpu_seconds_of_children() -> float:
    """Returns the CPU time of all finished child processes that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
