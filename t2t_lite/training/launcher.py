"""Starts, watches and restarts the worker processes of one machine: usually one for each GPU.

Each process traces and feeds one device only. They train together as the workers of a MultiWorkerMirroredStrategy.
"""

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from t2t_lite.errors import UserError
from t2t_lite.system.machine import visible_gpus
from t2t_lite.training.cluster import PROCESSES, host_and_port, make_tf_configs, task_of_environment

# Seconds in which the other workers must end by themselves after one has ended with an error, and then after SIGTERM.
_GRACE_SECONDS = 60.0
_TERM_SECONDS = 10.0
_AT_ONCE_SECONDS = 0.5  # and after a second signal
_POLL_SECONDS = 0.1
_USAGE_ERROR = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1


class Launcher:
    """Runs a command in several worker processes until all of them have ended.

    Without TF_CONFIG, they are all workers. With TF_CONFIG, each address stands for a machine whose workers use the
    ports from the address's port on; every machine must start as many processes. An evaluator is one process.

    The first worker's output goes to this process's output, and that of the others to files in `log_dir`. A signal
    (SIGINT, SIGTERM) is sent to all workers. A second one is, too, and kills those that do not end at once. If a worker
    ends with an error, the others end, too, and all are started again, up to `max_restarts` times; they resume from the
    last checkpoint. `processes` of 0 means one for each GPU, at least 1.
    """

    def __init__(
        self, command: Sequence[str], processes: int, max_restarts: int, log_dir: Path, say: Callable[[str], None]
    ) -> None:
        self._command, self._restarts_left, self._log_dir, self._say = list(command), max_restarts, log_dir, say
        self._task = task_of_environment()
        gpus = visible_gpus()
        self._number = 1 if self._task and self._task.is_evaluator else processes or max(1, len(gpus))
        if gpus and self._number > len(gpus):
            raise UserError(
                f"`processes_per_host={self._number}`, but this machine has {len(gpus)} visible GPUs; each process "
                f"needs one: pass at most {len(gpus)}, or auto"
            )
        self._gpus = gpus if self._number > 1 else []
        self._signals: list[int] = []  # the signals received

    def run(self) -> int:
        """Returns the exit status: 0, or that of the lowest worker that ended with an error; 128 plus the signal."""
        before = {each: signal.signal(each, lambda number, _: self._signals.append(number)) for each in _SIGNALS}
        try:
            while True:
                status = self._run_once()
                if status in (0, _USAGE_ERROR) or self._signals or not self._restarts_left:
                    return status
                self._restarts_left -= 1
                self._say(f"starting all workers again; {self._restarts_left} more restarts are allowed")
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run_once(self) -> int:
        logs: list[IO[bytes]] = []
        workers: list[subprocess.Popen] = []
        sent = 0
        try:
            for index, environment in enumerate(self._environments()):
                if index:
                    self._log_dir.mkdir(parents=True, exist_ok=True)
                    logs.append(open(self._log_dir / f"worker-{index}.log", "ab"))  # noqa: SIM115
                output = {"stdout": logs[-1], "stderr": subprocess.STDOUT} if index else {}
                workers.append(self._start(environment, output))
            deadline, first_error = None, None
            while any(worker.poll() is None for worker in workers):
                time.sleep(_POLL_SECONDS)
                for number in self._signals[sent:]:
                    sent += 1
                    if sent == 1:
                        _send(workers, number)
                    else:
                        _end(workers, number, _AT_ONCE_SECONDS)
                failed = [index for index, worker in enumerate(workers) if worker.poll()]
                if failed and first_error is None:
                    # Those that lose a killed worker end within milliseconds, and with an exit status.
                    first_error = min(failed, key=lambda index: workers[index].returncode >= 0)
                    deadline = time.monotonic() + _GRACE_SECONDS
                    status = workers[first_error].returncode
                    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
                    where = f"; see {self._log_dir / f'worker-{first_error}.log'}" if first_error else ""
                    self._say(f"worker {first_error} of {self._number} on this machine ended with {how}{where}")
                if deadline and time.monotonic() > deadline:
                    _end(workers)
            if len(self._signals) > 1:
                return 128 + self._signals[-1]
            first_error = next((i for i, worker in enumerate(workers) if worker.returncode), first_error)
            status = workers[first_error].returncode if first_error is not None else 0
            return 128 - status if status < 0 else status
        finally:
            _end(workers)
            for log in logs:
                log.close()

    def _start(self, environment: Mapping[str, str], output: Mapping[str, Any]) -> subprocess.Popen:
        # In its own session, so that only the launcher passes on Ctrl-C; if the launcher is killed, the workers stop.
        return subprocess.Popen(
            self._command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=end_with_parent,
            **output,
        )

    def _environments(self) -> list[dict[str, str]]:
        if self._task and self._task.is_evaluator:
            return [{PROCESSES: "1"}]
        configs = make_tf_configs(self._addresses()) if self._number > 1 or self._task else [""]
        first = self._number * self._task.index if self._task else 0
        return [
            {PROCESSES: str(self._number), "TF_CONFIG": configs[first + index]}
            | ({"CUDA_VISIBLE_DEVICES": self._gpus[index]} if self._gpus else {})
            for index in range(self._number)
        ]

    def _addresses(self) -> list[str]:
        if self._task is None:
            sockets = [socket.create_server(("localhost", 0)) for _ in range(self._number)]
            addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
            for each in sockets:
                each.close()
            return addresses
        places = map(host_and_port, self._task.workers)
        return [f"{host}:{port + index}" for host, port in places for index in range(self._number)]


def _send(workers: Sequence[subprocess.Popen], number: int) -> None:
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(number)


def _end(workers: Sequence[subprocess.Popen], number: int = signal.SIGTERM, seconds: float | None = None) -> None:
    """Ends all workers that still run: by a signal and, if that does not help, by SIGKILL."""
    _send(workers, number)
    deadline = time.monotonic() + (_TERM_SECONDS if seconds is None else seconds)
    while any(worker.poll() is None for worker in workers) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    _send(workers, signal.SIGKILL)
    for worker in workers:
        worker.wait()


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Lets Linux send a signal to this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
