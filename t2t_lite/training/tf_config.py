"""The environment variable TF_CONFIG, which lists the tasks of a training run."""

import json
import os
from typing import NamedTuple

from t2t_lite.errors import UserError

# The types of tasks that train, in the order of their numbers; the first one is the chief.
_TRAINING = ("chief", "worker")
EVALUATOR = "evaluator"


class Task(NamedTuple):
    workers: list[str]  # the addresses of all tasks that train, the chief's first
    index: int  # the index of this process among them; 0 for an evaluator
    is_evaluator: bool  # whether this process evaluates checkpoints instead of training
    has_evaluator: bool  # whether some process is known to do so


def workers_of_environment() -> tuple[list[str], int]:
    """Returns (addresses of all workers, index of this one); ([], 0) without TF_CONFIG or in an evaluator."""
    task = task_of_environment()
    return ([], 0) if task is None or task.is_evaluator else (task.workers, task.index)


def task_of_environment() -> Task | None:
    """Returns the content of TF_CONFIG; None if it is not set.

    Its cluster consists of workers, of which the first is the chief, or of a chief and workers. Another task can be an
    evaluator, which the cluster may omit.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return None
    try:
        config = json.loads(text)
        cluster, kind, index = config["cluster"], config["task"]["type"], config["task"]["index"]
        chiefs, workers = (list(cluster.get(name, ())) for name in _TRAINING)
        if unknown := sorted(set(cluster) - {*_TRAINING, EVALUATOR}):
            raise ValueError(f"there are no tasks of type {unknown[0]}; use chief, worker and {EVALUATOR}")
        if len(chiefs) > 1 or not (chiefs or workers):
            raise ValueError(f"there must be one chief or a list of workers, but there are {len(chiefs)} chiefs")
        if kind not in (*_TRAINING, EVALUATOR):
            raise ValueError(f"the type of this task must be chief, worker or {EVALUATOR}, not {kind}")
        number = len(cluster.get(kind, [None]))
        if not 0 <= index < number:
            raise ValueError(f"there is no {kind} {index} among {number}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UserError(
            f"the environment variable TF_CONFIG is invalid ({reason}); print a valid value with "
            f"t2t-lite-trainer --make_tf_config=host1:port,host2:port"
        ) from error
    is_evaluator = kind == EVALUATOR
    place = 0 if is_evaluator else index + (len(chiefs) if kind == "worker" else 0)
    return Task([*chiefs, *workers], place, is_evaluator, is_evaluator or EVALUATOR in cluster)


def make_tf_configs(addresses: list[str]) -> list[str]:
    """Returns the value of TF_CONFIG for each worker, given all addresses ("host:port")."""
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(len(addresses))
    ]
