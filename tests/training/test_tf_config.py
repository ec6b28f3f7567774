"""TF_CONFIG: the printed value can be parsed, and invalid values are refused."""

import pytest

from t2t_lite.errors import UserError
from t2t_lite.training.tf_config import make_tf_configs, workers_of_environment


def test_each_printed_tf_config_describes_its_worker(monkeypatch):
    addresses = ["a:1", "b:2", "c:3"]
    for index, config in enumerate(make_tf_configs(addresses)):
        monkeypatch.setenv("TF_CONFIG", config)
        assert workers_of_environment() == (addresses, index)


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
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
    ],
)
def test_an_unusable_tf_config_is_refused_with_a_remedy(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(UserError, match=r"TF_CONFIG is invalid .*--make_tf_config") as caught:
        workers_of_environment()
    assert "\n" not in str(caught.value)
