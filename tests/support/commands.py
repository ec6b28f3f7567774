"""Commands, run inside the process of the tests or in a fresh one."""

import importlib
import io
import os
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path
from unittest import mock


def run_in_this_process(name: str, *flags: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess:
    """Calls a command's `main`, as a notebook does: no start of Python, no import of TensorFlow.

    What C++ code writes to the file descriptors is not seen, and devices are those of this process.
    """
    module = importlib.import_module(f"t2t_lite.bin.{name}")
    flags = [str(flag) for flag in flags]
    source = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    streams = {"stdin": source, "stdout": output, "stderr": errors}
    with mock.patch.dict(os.environ, environment), mock.patch.multiple(sys, **streams):
        try:
            status = module.main(flags)
        except Exception:
            traceback.print_exc()
            status = 1
    texts = (stream.buffer.getvalue().decode() for stream in (output, errors))
    return subprocess.CompletedProcess([f"t2t-lite-{name}", *flags], status, *texts)


def with_flags(flags, *changes: str) -> list[str]:
    """Returns flags in which `changes` take the place of those with the same names: a flag may be given only once."""
    return [*({flag.partition("=")[0]: flag for flag in (*flags, *changes)}.values())]


def free_addresses(number: int) -> list[str]:
    """Returns addresses at ports of this machine that nobody uses."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(number)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def program(name: str) -> Path:
    """Returns the path of an installed command."""
    path = Path(sys.executable).with_name(f"t2t-lite-{name}")
    assert path.exists(), f"{path} is not there; install the project first: pip install -e ."
    return path


def user_environment(**more: str) -> dict[str, str]:
    """Returns the environment of a user's shell, which finds the commands and lacks what tests set for TensorFlow."""
    ours = ("TF_CPP_MIN_LOG_LEVEL", "TF_XLA_FLAGS")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {name: value for name, value in os.environ.items() if name not in ours} | {"PATH": path} | more


def run_process(name: str, *flags: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess:
    """Runs an installed command in a fresh process, as a shell does."""
    # Not a limit on speed: a command that hangs fails its test instead of stopping the suite.
    options = {"env": user_environment(**environment), "capture_output": True, "timeout": 600, "check": False}
    finished = subprocess.run([program(name), *flags], input=stdin, **options)
    finished.stdout, finished.stderr = finished.stdout.decode(), finished.stderr.decode()
    return finished


def run_python(program: str, *arguments: str, status: int = 0, **environment: str) -> subprocess.CompletedProcess:
    """Runs a program of Python in a fresh process, with text as output; it must end with that status."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = user_environment(**environment)
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == status, finished.stdout + finished.stderr
    return finished


def start_process(
    name: str | Path, *flags: str, environment: dict[str, str] | None = None, **options
) -> subprocess.Popen:
    """Starts an installed command, or one at a path; its standard error joins its output, as text (see `options`)."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} | options
    # A shell's background jobs ignore SIGINT, and child processes inherit that: reset it, so that tests can send it.
    more = options.pop("preexec_fn", lambda: None)
    options["preexec_fn"] = lambda: (signal.signal(signal.SIGINT, signal.SIG_DFL), more())
    path = name if isinstance(name, Path) else program(name)
    return subprocess.Popen([path, *flags], env=user_environment(**(environment or {})), **options)
