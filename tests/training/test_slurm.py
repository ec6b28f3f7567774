"""TF_CONFIG from SLURM's variables, as srun of slurm-wlm 22.05 sets them; see also tests/integration/test_slurm.py."""

import json

import pytest

from t2t_lite.errors import UserError
from t2t_lite.training.cluster import expand_hosts, tf_config_of_step, use_slurm, workers_of_environment

# srun --nodes=3 --ntasks=5
STEP = {
    "SLURM_JOB_ID": "83",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "gpu[07-08],login",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_PROCID": "3",
}
PORT = 10_000 + 3 * 512  # the job's number modulo 40 is 3


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


def test_the_tasks_of_a_step_are_workers_each_with_ports_of_its_own(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "")  # so that it is put back at the end
    monkeypatch.delenv("TF_CONFIG")
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)
    use_slurm()
    tasks = [("gpu07", 0), ("gpu07", 1), ("gpu08", 0), ("gpu08", 1), ("login", 0)]
    assert workers_of_environment() == ([f"{host}:{PORT + 16 * local}" for host, local in tasks], 3)


def test_a_tf_config_that_is_set_has_precedence(monkeypatch):
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)
    config = json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}})
    monkeypatch.setenv("TF_CONFIG", config)
    use_slurm()
    assert workers_of_environment() == (["a:1", "b:2"], 1)


@pytest.mark.parametrize(
    "environment", [{}, STEP | {"SLURM_STEP_NUM_TASKS": "1"}, {"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}]
)
def test_a_batch_script_and_a_single_task_have_no_other_workers(environment):
    assert tf_config_of_step(environment) == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"SLURM_PROCID": ""}, "cannot be read (invalid literal for int"),
        ({"SLURM_PROCID": "5"}, "cannot be read (task 5 of [2, 2, 1] tasks on 3 machines)"),
        ({"SLURM_STEP_NODELIST": "gpu[1-2"}, "cannot be read (the brackets in gpu[1-2 are not balanced)"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(3)"}, "cannot be read (2(3) is not a list of numbers of tasks)"),
        ({"SLURM_STEP_TASKS_PER_NODE": "33,1,1"}, "srun starts 33 tasks on a machine; start at most 32"),
        ({"SLURM_DISTRIBUTION": "cyclic:block"}, "srun distributes the tasks in another order than by machine;"),
    ],
)
def test_variables_that_cannot_be_read_are_an_error_of_one_line(changes, message):
    with pytest.raises(UserError) as error:
        tf_config_of_step(STEP | changes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_variable_is_named():
    with pytest.raises(UserError, match="'SLURM_PROCID' is missing"):
        tf_config_of_step({name: value for name, value in STEP.items() if name != "SLURM_PROCID"})
