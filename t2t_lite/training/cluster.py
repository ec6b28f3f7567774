"""The workers of a training run: TF_CONFIG, also from SLURM, and how they meet before TensorFlow starts."""

import contextlib
import itertools
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from t2t_lite.errors import UserError

# The types of tasks that train, in the order of their numbers; the first one is the chief.
_TRAINING = ("chief", "worker")
EVALUATOR = "evaluator"
# In the environment of a process that the launcher started: the number of such processes on the machine.
PROCESSES = "T2T_LITE_PROCESSES_PER_HOST"


def is_launched() -> bool:
    return PROCESSES in os.environ


def processes_on_host() -> int:
    return int(os.environ.get(PROCESSES, "1"))


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
    if not (text := os.environ.get("TF_CONFIG", "")):
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
        counts, tasks = environment["SLURM_STEP_TASKS_PER_NODE"], []  # such as "2(x3),1", by machine
        for part in counts.split(","):
            if (match := re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)) is None:
                raise ValueError(f"{counts} is not a list of numbers of tasks")
            tasks += [int(match[1])] * int(match[2] or 1)
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


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise UserError(f"TF_CONFIG: the address '{address}' has no port; write host:port")
    return host, int(port)


_POLL_SECONDS = 0.2


def meet_workers(workers: Sequence[str], index: int, seconds: float) -> None:
    """Returns when the ports of all workers ("host:port") are open; at once if `seconds` is 0. This worker has `index`.

    This worker's own port is open meanwhile, and free afterwards: TensorFlow, which comes next, opens it again.
    """
    if not seconds:
        return
    for address in workers:
        host_and_port(address)  # a check
    missing = {number: address for number, address in enumerate(workers) if number != index}
    deadline = time.monotonic() + seconds
    with _opened(workers[index]) as own:
        while missing:
            for number in [number for number, address in missing.items() if _is_open(address)]:
                del missing[number]
            with contextlib.suppress(BlockingIOError):  # nobody else connects
                while missing:
                    own.accept()[0].close()
            if missing and time.monotonic() > deadline:
                listed = ", ".join(f"{number} ({address})" for number, address in missing.items())
                which = f"worker {listed} has" if len(missing) == 1 else f"workers {listed} have"
                raise UserError(
                    f"{which} not come within {seconds:g} s; check that the same command runs there, and that the "
                    f"port can be reached from this machine"
                )
            time.sleep(_POLL_SECONDS if missing else 0.0)


def _opened(address: str) -> socket.socket:
    _, port = host_and_port(address)
    both = socket.has_dualstack_ipv6()
    try:
        own = socket.create_server(("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both)
    except OSError as error:
        raise UserError(
            f"this worker cannot open its port, {address} in TF_CONFIG ({error.strerror}); end what uses it, or pass "
            f"another port"
        ) from error
    own.setblocking(False)
    return own


def _is_open(address: str) -> bool:
    host, port = host_and_port(address)
    try:
        socket.create_connection((host.strip("[]"), port), timeout=1.0).close()
    except OSError:
        return False
    return True
