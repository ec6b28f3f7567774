"""Workers: TF_CONFIG, what SLURM's srun of slurm-wlm 22.05 sets, and how they wait for each other."""

import contextlib
import json
import socket
import threading

import pytest
from support.commands import free_addresses

from t2t_lite.errors import UserError
from t2t_lite.training.cluster import (
    Task,
    expand_hosts,
    make_tf_configs,
    meet_workers,
    task_of_environment,
    tf_config_of_step,
    use_slurm,
    workers_of_environment,
)

# The clusters that Kubeflow's training operator and Vertex AI write; Kubeflow's omits the evaluator.
KUBEFLOW = {"chief": ["run-chief-0.ns.svc:2222"], "worker": ["run-worker-0.ns.svc:2222", "run-worker-1.ns.svc:2222"]}
VERTEX = KUBEFLOW | {"evaluator": ["run-evaluator-0:2222"]}

# srun --nodes=3 --ntasks=5
STEP = {"SLURM_JOB_ID": "83", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "gpu[07-08],login", "SLURM_PROCID": "3"}
STEP |= {"SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"}
PORT = 10_000 + 3 * 512  # the job's number modulo 40 is 3


@contextlib.contextmanager
def refused(message):
    """What is done inside must end with an error of one line."""
    with pytest.raises(UserError, match=message) as error:
        yield
    assert "\n" not in str(error.value)


def test_each_printed_tf_config_describes_its_worker(monkeypatch):
    addresses = ["a:1", "b:2", "c:3"]
    for index, config in enumerate(make_tf_configs(addresses)):
        monkeypatch.setenv("TF_CONFIG", config)
        assert workers_of_environment() == (addresses, index)
    for nothing in (lambda: monkeypatch.setenv("TF_CONFIG", ""), lambda: monkeypatch.delenv("TF_CONFIG")):
        nothing()
        assert workers_of_environment() == ([], 0)


@pytest.mark.parametrize("cluster", [KUBEFLOW, VERTEX], ids=["kubeflow", "vertex"])
def test_a_cluster_may_have_a_chief_and_an_evaluator(monkeypatch, cluster):
    addresses = [*KUBEFLOW["chief"], *KUBEFLOW["worker"]]
    for place, (kind, index) in enumerate([("chief", 0), ("worker", 0), ("worker", 1)]):
        config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud", "job": "{}"}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        assert workers_of_environment() == (addresses, place)
        assert task_of_environment() == Task(addresses, place, False, cluster is VERTEX)
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))
    assert workers_of_environment() == ([], 0)
    assert task_of_environment() == Task(addresses, 0, True, True)


@pytest.mark.parametrize(
    "value",
    [
        "{",
        "[]",
        "{}",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}}',
        '{"cluster": {"evaluator": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}',
        '{"cluster": ["a:1"], "task": {"type": "worker", "index": 0}}',
        *(
            f'{{"cluster": {{"worker": ["a:1"]}}, "task": {{"type": "{kind}", "index": {index}}}}}'
            for kind, index in (("worker", 1), ("worker", -1), ("worker", '"0"'), ("ps", 0), ("evaluator", 1))
        ),
    ],
)
def test_an_unusable_tf_config_is_refused_with_a_remedy(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with refused(r"TF_CONFIG is invalid .*--make_tf_config"):
        workers_of_environment()


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        ("a", ["a"]),
        ("a1,b2.net", ["a1", "b2.net"]),
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[08-11]-ib,m", ["n08-ib", "n09-ib", "n10-ib", "n11-ib", "m"]),
        ("r[1-2]n[3,5]", ["r1n3", "r1n5", "r2n3", "r2n5"]),
    ],
)
def test_a_list_of_hosts_is_expanded(names, hosts):
    assert list(expand_hosts(names)) == hosts


def test_the_tasks_of_a_step_are_workers_each_with_ports_of_its_own_unless_tf_config_is_set(monkeypatch):
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)
    config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    use_slurm()
    assert workers_of_environment() == (["a:1", "b:2"], 1)
    monkeypatch.delenv("TF_CONFIG")
    use_slurm()
    tasks = [("gpu07", 0), ("gpu07", 1), ("gpu08", 0), ("gpu08", 1), ("login", 0)]
    assert workers_of_environment() == ([f"{host}:{PORT + 16 * local}" for host, local in tasks], 3)


@pytest.mark.parametrize(
    "environment", [{}, STEP | {"SLURM_STEP_NUM_TASKS": "1"}, {"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}]
)
def test_a_batch_script_and_a_single_task_have_no_other_workers(environment):
    assert tf_config_of_step(environment) == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"SLURM_PROCID": ""}, r"cannot be read \(invalid literal for int"),
        ({"SLURM_PROCID": "5"}, r"cannot be read \(task 5 of \[2, 2, 1\] tasks on 3 machines\)"),
        ({"SLURM_PROCID": None}, "'SLURM_PROCID' is missing"),
        ({"SLURM_STEP_NODELIST": "gpu[1-2"}, r"cannot be read \(the brackets in gpu\[1-2 are not balanced\)"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(3)"}, r"cannot be read \(2\(3\) is not a list of numbers of tasks\)"),
        ({"SLURM_STEP_TASKS_PER_NODE": "33,1,1"}, "srun starts 33 tasks on a machine; start at most 32"),
        ({"SLURM_DISTRIBUTION": "cyclic:block"}, "srun distributes the tasks in another order than by machine;"),
    ],
)
def test_variables_that_cannot_be_read_are_an_error(changes, message):
    with refused(message):
        tf_config_of_step({name: value for name, value in (STEP | changes).items() if value is not None})


@pytest.fixture
def addresses():
    return free_addresses(3)


def test_all_workers_return_when_the_last_one_has_come_and_their_ports_are_free(addresses):
    returned = []

    def worker(index):
        meet_workers(addresses, index, 60)
        returned.append(index)
        # As TensorFlow does, it opens its port again at once: a worker that has not seen it yet still finds it.
        servers.append(socket.create_server(("localhost", int(addresses[index].rpartition(":")[2])), backlog=8))

    servers = []
    threads = [threading.Thread(target=worker, args=(index,)) for index in range(3)]
    for thread in threads[:2]:
        thread.start()
    threads[0].join(1.0)
    assert returned == []  # the third one has not come
    threads[2].start()
    for thread in threads:
        thread.join(60)
    assert sorted(returned) == [0, 1, 2]
    for server in servers:
        server.close()


def test_errors_name_missing_workers_ports_in_use_and_addresses_without_a_port(addresses):
    first, second, _ = (int(address.rpartition(":")[2]) for address in addresses)
    missing = rf"^worker 2 \({addresses[2]}\) has not come within 0.1 s; "
    with socket.create_server(("localhost", second)), refused(missing):
        meet_workers(addresses, 0, 0.1)
    in_use = rf"^this worker cannot open its port, {addresses[0]} in TF_CONFIG \(Address "
    with socket.create_server(("", first)), refused(in_use):
        meet_workers(addresses, 0, 0.1)
    with refused("the address 'host2' has no port"):
        meet_workers([addresses[0], "host2"], 0, 0.1)
    meet_workers(["host1", "host2"], 0, 0.0)
