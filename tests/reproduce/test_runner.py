"""Commands one after the other, each in a process of its own: time, failures, budgets and kills."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t2t_lite.errors import UserError
from t2t_lite.reproduce.runs import SCALES, TIMES, Command, Runner, planned_runs, spent

# Programs in the place of the package's commands.
PROGRAMS = {
    "works": "import sys; print('done', *sys.argv[1:])",
    "fails": "import sys; print('first line'); sys.exit('the reason')",
    # As the trainer: it ends at SIGTERM.
    "waits": """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("ready", flush=True)
time.sleep(99)
""",
    "computes": "import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: pass",
}


def program(name):
    return [sys.executable, "-c", PROGRAMS[name]]


@pytest.fixture
def run(tmp_path):
    return planned_runs(3, SCALES["tiny"], ["base"], 1, tmp_path, {}, {})[0]


def runner(folder, budget=None, said=None):
    return Runner(folder, budget, program, (said if said is not None else []).append)


@pytest.mark.slow
def test_output_goes_to_a_log_and_time_is_recorded(tmp_path, run):
    said = []
    ours = runner(tmp_path, said=said)
    assert ours.execute(run, Command("works", ("--a=1",)))
    assert ours.execute(run, Command("computes", ()))
    assert said == [f"{run.name}: works", f"{run.name}: computes"]
    log = tmp_path / f"{run.name}.log"
    assert log.read_text().splitlines()[1:3] == ["$ t2t-lite-works --a=1", "done --a=1"]
    taken = spent(tmp_path)[run.name]
    assert taken.seconds >= 1.5
    assert 1.5 <= taken.cpu_seconds < 10


def test_a_failure_is_one_line_with_the_reason(tmp_path, run):
    with pytest.raises(UserError, match=f"{run.name}: fails failed: the reason .full output: .*log"):
        runner(tmp_path).execute(run, Command("fails", ()))


@pytest.mark.slow
def test_the_running_command_is_told_to_stop_when_the_time_is_over(tmp_path, run):
    ours = runner(tmp_path, budget=1 / 60)
    assert not ours.is_over
    assert not ours.execute(run, Command("waits", ()))
    assert ours.is_over


def test_a_kill_loses_at_most_the_last_record_of_the_time(tmp_path):
    entries = [
        {"run": "a", "command": "trainer", "start": 1.0, "seconds": 20.0, "cpu_seconds": 30.0},
        {"run": "a", "command": "trainer", "start": 1.0, "seconds": 40.0, "cpu_seconds": 60.0},
        {"run": "a", "command": "trainer", "start": 100.0, "seconds": 5.0, "cpu_seconds": 6.0},
        {"run": "b", "command": "eval", "start": 200.0, "seconds": 1.0, "cpu_seconds": 2.0},
    ]
    (tmp_path / TIMES).write_text("".join(f"{json.dumps(entry)}\n" for entry in entries) + '{"run": "b", "sta')
    assert spent(tmp_path) == {"a": (45.0, 66.0), "b": (1.0, 2.0)}
    assert spent(tmp_path, "eval") == {"b": (1.0, 2.0)}
    assert spent(tmp_path / "nothing") == {}


SCRIPT = f"""
import sys
from pathlib import Path
from t2t_lite.reproduce.runs import Runner
from t2t_lite.reproduce.runs import Command, planned_runs
from t2t_lite.reproduce.runs import SCALES
folder = Path(sys.argv[1])
run = planned_runs(3, SCALES["tiny"], ["base"], 1, folder, {{}}, {{}})[0]
print(run.directory.with_name(run.name + ".log"), flush=True)
program = [sys.executable, "-c", {PROGRAMS["waits"]!r}]
Runner(folder, None, lambda name: program, print).execute(run, Command("waits", ()))
"""


def test_a_signal_is_passed_on_to_the_running_command(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path], stdout=subprocess.PIPE, text=True)
    log = Path(process.stdout.readline().strip())
    while not (log.exists() and "ready" in log.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert "stopping after SIGTERM; run the same command again to continue" in process.stdout.read()
    with pytest.raises(ProcessLookupError):
        os.kill(int(child), 0)
