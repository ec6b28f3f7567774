"""TF_CONFIG: the printed value can be parsed, and invalid values are refused."""

import json

import pytest

from t2t_lite.errors import UserError
from t2t_lite.training.cluster import Task, make_tf_configs, task_of_environment, workers_of_environment


def test_each_printed_tf_config_describes_its_worker(monkeypatch):
    addresses = ["a:1", "b:2", "c:3"]
    for index, config in enumerate(make_tf_configs(addresses)):
        monkeypatch.setenv("TF_CONFIG", config)
        assert workers_of_environment() == (addresses, index)


# The clusters that Kubeflow's training operator and Vertex AI write; Kubeflow's omits the evaluator.
KUBEFLOW = {"chief": ["run-chief-0.ns.svc:2222"], "worker": ["run-worker-0.ns.svc:2222", "run-worker-1.ns.svc:2222"]}
VERTEX = KUBEFLOW | {"evaluator": ["run-evaluator-0:2222"]}


@pytest.mark.parametrize("cluster", [KUBEFLOW, VERTEX], ids=["kubeflow", "vertex"])
def test_a_cluster_may_have_a_chief_and_an_evaluator(monkeypatch, cluster):
    addresses = [*KUBEFLOW["chief"], *KUBEFLOW["worker"]]
    for place, (kind, index) in enumerate([("chief", 0), ("worker", 0), ("worker", 1)]):
        task = {"type": kind, "index": index}
        monkeypatch.setenv(
            "TF_CONFIG", json.dumps({"cluster": cluster, "task": task, "environment": "cloud", "job": "{}"})
        )
        assert workers_of_environment() == (addresses, place)
        assert task_of_environment() == Task(addresses, place, False, cluster is VERTEX)
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))
    assert workers_of_environment() == ([], 0)
    assert task_of_environment() == Task(addresses, 0, True, True)


@pytest.mark.parametrize("value", [None, ""])
def test_without_tf_config_there_are_no_other_workers(monkeypatch, value):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if value is not None:
        monkeypatch.setenv("TF_CONFIG", value)
    assert workers_of_environment() == ([], 0)


@pytest.mark.parametrize(
    "value",
    [
        "{",
        "[]",
        "{}",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": -1}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 1}}',
        '{"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}}',
        '{"cluster": {"evaluator": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "0"}}',
        '{"cluster": ["a:1"], "task": {"type": "worker", "index": 0}}',
    ],
)
def test_an_unusable_tf_config_is_refused_with_a_remedy(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(UserError, match=r"TF_CONFIG is invalid .*--make_tf_config") as caught:
        workers_of_environment()
    assert "\n" not in str(caught.value)
