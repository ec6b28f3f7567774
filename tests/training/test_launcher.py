"""The launcher with workers that are short Python programs."""

import json
import os
import signal
import sys
import textwrap
import threading
import time

import pytest

from t2t_lite.errors import UserError
from t2t_lite.training.cluster import PROCESSES, task_of_environment
from t2t_lite.training.launcher import Launcher

# Each worker finds its index in `index` and a folder in sys.argv[1].
PREAMBLE = """
import json, os, signal, sys, time
from pathlib import Path
config = json.loads(os.environ["TF_CONFIG"] or "{}")
index = config["task"]["index"] if config else 0
folder = Path(sys.argv[1])
def started():
    number = len(list(folder.glob(f"start-{index}-*")))
    (folder / f"start-{index}-{number}").touch()
    return number
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """This process has no TF_CONFIG and no GPU."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def launch(tmp_path):
    """Runs a program in several workers: (exit status, lines that were said)."""

    def launch(program, processes=2, max_restarts=0):
        said = []
        command = [sys.executable, "-c", PREAMBLE + textwrap.dedent(program), str(tmp_path)]
        status = Launcher(command, processes, max_restarts, tmp_path / "workers", said.append).run()
        return status, said

    return launch


def signals_after(folder, number, *patterns):
    """Starts a thread that sends this process a signal whenever the folder has two files of the next pattern."""

    def send():
        for pattern in patterns:
            while len(list(folder.glob(pattern))) < 2:
                time.sleep(0.01)
            os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    return sender


def test_each_worker_knows_its_place_and_only_the_first_prints_here(launch, tmp_path, capfd, monkeypatch):
    program = f"""
    told = [config, os.environ["{PROCESSES}"], os.environ["CUDA_VISIBLE_DEVICES"]]
    (folder / f"{{index}}").write_text(json.dumps(told))
    print(f"printed by {{index}}", flush=True)
    print("an error", file=sys.stderr)
    """
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-5f,6")
    assert launch(program, processes=3) == (0, [])
    told = [json.loads((tmp_path / str(index)).read_text()) for index in range(3)]
    addresses = told[0][0]["cluster"]["worker"]
    assert len(set(addresses)) == 3 and all(address.startswith("localhost:") for address in addresses)
    for index, (config, processes, gpus) in enumerate(told):
        assert config == {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        assert (processes, gpus) == ("3", ["4", "GPU-5f", "6"][index])
    assert capfd.readouterr() == ("printed by 0\n", "an error\n")
    for index in (1, 2):
        log = (tmp_path / "workers" / f"worker-{index}.log").read_text()
        assert sorted(log.splitlines()) == ["an error", f"printed by {index}"]


def test_auto_starts_a_process_for_each_gpu_and_more_are_refused(launch, tmp_path, monkeypatch):
    program = "started()"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    assert launch(program, processes=0) == (0, [])
    assert len(list(tmp_path.glob("start-*"))) == 3
    with pytest.raises(UserError, match="`processes_per_host=4`, but this machine has 3 visible GPUs"):
        launch(program, processes=4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert launch("assert not config; started()", processes=0) == (0, [])
    assert len(list(tmp_path.glob("start-0-*"))) == 2


def test_with_tf_config_each_machine_starts_its_share_of_the_workers(launch, tmp_path, monkeypatch):
    cluster = {"chief": ["a:2222"], "worker": ["b:3333"]}
    program = '(folder / f"{index}").write_text(json.dumps(config))'
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    assert launch(program) == (0, [])
    assert not (tmp_path / "0").exists() and not (tmp_path / "1").exists()
    for index in (2, 3):
        monkeypatch.setenv("TF_CONFIG", (tmp_path / str(index)).read_text())
        assert task_of_environment().workers == ["a:2222", "a:2223", "b:3333", "b:3334"]
        assert task_of_environment().index == index
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))
    assert launch('(folder / "evaluator").write_text(config["task"]["type"])') == (0, [])
    assert (tmp_path / "evaluator").read_text() == "evaluator"


def test_after_an_error_all_workers_are_started_again_as_often_as_allowed(launch, tmp_path):
    # In each round, worker 1 kills itself, and worker 0 then ends at once with an error, as after the loss of a worker.
    program = """
    number = started()
    if index:
        (folder / f"part-{number}").write_text(str(os.getpid()))
        (folder / f"part-{number}").rename(folder / f"process-{number}")
        os.kill(os.getpid(), signal.SIGKILL)
    while not (folder / f"process-{number}").exists():
        time.sleep(0.001)
    stat = Path("/proc") / (folder / f"process-{number}").read_text() / "stat"
    while stat.exists() and ") Z" not in stat.read_text():
        time.sleep(0.001)
    os._exit(1)
    """
    status, said = launch(program, max_restarts=2)
    assert status == 1
    ended = f"worker 1 of 2 on this machine ended with signal SIGKILL; see {tmp_path / 'workers' / 'worker-1.log'}"
    again = [f"starting all workers again; {more} more restarts are allowed" for more in (1, 0)]
    assert said == [ended, again[0], ended, again[1], ended]
    assert all(len(list(tmp_path.glob(f"start-{index}-*"))) == 3 for index in range(2))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_goes_to_all_workers_and_ends_the_run(launch, tmp_path, number):
    program = """
    def stop(number, frame):
        (folder / f"signalled-{index}").touch()
        sys.exit(128 + number)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    started()
    time.sleep(600)
    """
    sender = signals_after(tmp_path, number, "start-*")
    status, _ = launch(program, max_restarts=5)
    sender.join()
    assert status == 128 + number
    assert len(list(tmp_path.glob("signalled-*"))) == 2 and len(list(tmp_path.glob("start-*"))) == 2


@pytest.mark.parametrize("ends", [True, False])
def test_a_second_signal_ends_all_workers_at_once(launch, tmp_path, ends):
    """The second one is the same as the first, and a worker may be unable to receive any."""
    program = f"""
    signals = []
    def note(number, frame):
        signals.append(number)
        (folder / f"signalled-{{index}}-{{len(signals)}}").touch()
        if {ends} and len(signals) == 2:
            os._exit(7)
    signal.signal(signal.SIGINT, note)
    started()
    while True:
        time.sleep(1)
    """
    sender = signals_after(tmp_path, signal.SIGINT, "start-*", "signalled-*")
    status, _ = launch(program, max_restarts=5)
    sender.join()
    assert status == 130
    assert len(list(tmp_path.glob("signalled-*-2"))) == 2 and len(list(tmp_path.glob("start-*"))) == 2


def test_a_worker_that_does_not_end_is_killed(launch, tmp_path, monkeypatch):
    monkeypatch.setattr("t2t_lite.training.launcher._GRACE_SECONDS", 0.5)
    monkeypatch.setattr("t2t_lite.training.launcher._TERM_SECONDS", 0.5)
    program = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    started()
    while len(list(folder.glob("start-*"))) < 2:
        time.sleep(0.01)
    if index:
        sys.exit(1)
    time.sleep(600)
    """
    status, said = launch(program)
    assert status == 137 and len(said) == 1
