"""TF_CONFIG from the environment of a SLURM job step: the tasks of `srun` train together."""

import itertools
import os
import re
from collections.abc import Iterator, Mapping

from t2t_lite.errors import UserError
from t2t_lite.training.tf_config import make_tf_configs

# The ports of a job: a block of a job's own, so that jobs on the same machine do not clash. Each task has several
# ports, for the processes of --processes_per_host. Linux gives other connections ports from 32768 on.
_FIRST_PORT, _BLOCKS = 10_000, 40
_TASKS_PER_NODE, _PORTS_PER_TASK = 32, 16


def use_slurm() -> None:
    """Sets TF_CONFIG if it is not set and this process is one of several tasks that `srun` started."""
    if not os.environ.get("TF_CONFIG") and (config := tf_config_of_step(os.environ)):
        os.environ["TF_CONFIG"] = config


def is_in_step(environment: Mapping[str, str]) -> bool:
    number = environment.get("SLURM_STEP_NUM_TASKS", "")
    return number.isdecimal() and int(number) > 1


def tf_config_of_step(environment: Mapping[str, str]) -> str:
    """Returns the value of TF_CONFIG for this task of a job step; "" outside of a step with several tasks.

    The first task is the chief. The batch script itself, and `srun` with a single task, are not such steps.
    """
    if not is_in_step(environment):
        return ""
    try:
        hosts = list(expand_hosts(environment["SLURM_STEP_NODELIST"]))
        tasks = list(_tasks_of_hosts(environment["SLURM_STEP_TASKS_PER_NODE"]))
        first = _FIRST_PORT + int(environment["SLURM_JOB_ID"]) % _BLOCKS * _TASKS_PER_NODE * _PORTS_PER_TASK
        index = int(environment["SLURM_PROCID"])
        if len(hosts) != len(tasks) or not 0 <= index < sum(tasks):
            raise ValueError(f"task {index} of {tasks} tasks on {len(hosts)} machines")
    except (KeyError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UserError(
            f"the environment variables of SLURM cannot be read ({reason}); set TF_CONFIG instead, as printed by "
            f"t2t-lite-trainer --make_tf_config=host1:port,host2:port"
        ) from error
    if max(tasks) > _TASKS_PER_NODE:
        raise UserError(f"srun starts {max(tasks)} tasks on a machine; start at most {_TASKS_PER_NODE}")
    # With --distribution=block, SLURM's default, tasks have consecutive numbers on each machine.
    if re.split("[:,]", environment.get("SLURM_DISTRIBUTION", "block"))[0] != "block" and max(tasks) > 1 < len(hosts):
        raise UserError("srun distributes the tasks in another order than by machine; pass it --distribution=block")
    addresses = [
        f"{host}:{first + local * _PORTS_PER_TASK}" for host, number in zip(hosts, tasks) for local in range(number)
    ]
    return make_tf_configs(addresses)[index]


def expand_hosts(names: str) -> Iterator[str]:
    """Yields the names in a list such as "a1,b[1-3,07]-ib0". Raises ValueError if brackets are not balanced."""
    for name in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", names):
        parts = re.split(r"\[([^\]]*)\]", name)
        ranges = [list(_numbers(part)) if place % 2 else [part] for place, part in enumerate(parts)]
        yield from map("".join, itertools.product(*ranges))
    if re.search(r"[\[\]]", re.sub(r"\[[^\[\]]*\]", "", names)):
        raise ValueError(f"the brackets in {names} are not balanced")


def _numbers(ranges: str) -> Iterator[str]:
    """Yields the numbers in "1-3,07", padded with zeros as their first one is."""
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield str(number).zfill(len(first))


def _tasks_of_hosts(counts: str) -> Iterator[int]:
    """Yields the number of tasks on each machine, given a list such as "2(x3),1"."""
    for part in counts.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if match is None:
            raise ValueError(f"{counts} is not a list of numbers of tasks")
        yield from [int(match[1])] * int(match[2] or 1)
