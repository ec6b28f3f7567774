"""The environment variable TF_CONFIG, which lists the workers of a training run."""

import json
import os

from t2t_lite.errors import UserError


def workers_of_environment() -> tuple[list[str], int]:
    """Returns (addresses of all workers, index of this worker); ([], 0) if TF_CONFIG is not set.

    Raises a UserError if TF_CONFIG is not JSON with a list of workers and the index of this worker.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return [], 0
    try:
        config = json.loads(text)
        workers, task = list(config["cluster"]["worker"]), config["task"]
        if set(config["cluster"]) != {"worker"} or task["type"] != "worker":
            raise ValueError("all tasks must be of type worker; the first worker is the chief")
        if not 0 <= task["index"] < len(workers):
            raise ValueError(f"there is no worker {task['index']} among {len(workers)}")
    except (ValueError, KeyError, TypeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UserError(
            f"the environment variable TF_CONFIG is invalid ({reason}); print a valid value with "
            f"t2t-lite-trainer --make_tf_config=host1:port,host2:port"
        ) from error
    return workers, task["index"]


def make_tf_configs(addresses: list[str]) -> list[str]:
    """Returns the value of TF_CONFIG for each worker, given all addresses ("host:port")."""
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(len(addresses))
    ]
