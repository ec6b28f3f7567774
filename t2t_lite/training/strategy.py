"""The devices of a training run, and reductions over its workers."""

import contextlib
import re

import numpy as np
import tensorflow as tf

from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.system.machine import free_memory, num_cores, user_sets_threads, warn_if_unused, why_unused
from t2t_lite.system.tensorflow import is_prepared
from t2t_lite.training import private_names
from t2t_lite.training.launcher import processes_on_host
from t2t_lite.training.meeting import meet_workers
from t2t_lite.training.tf_config import workers_of_environment

# Number of micro-batches that a CPU computes at once.
_PARALLEL_ON_CPU = 2


def make_strategy(
    name: str = "auto",
    num_gpus: int | None = None,
    virtual_devices: int = 0,
    xla_compile: bool | None = None,
    worker_timeout: float = 0.0,
) -> tf.distribute.Strategy:
    """Returns the distribution strategy of this run. Call it before TensorFlow computes anything.

    Args:
      name: "one_device"; "mirrored": the GPUs of this machine; "multi_worker": the devices of all machines in
        TF_CONFIG; "tpu"; "auto": "multi_worker" if TF_CONFIG names several workers, else "mirrored" if there are
        several GPUs, else "one_device".
      num_gpus: number of GPUs to use on a machine; None: all.
      virtual_devices: if above 0, split the CPU into this many devices and use them. They share its cores, so this
        only helps to try out training on several GPUs.
      xla_compile: whether steps are compiled; None: only on GPUs. If they are, a CPU computes one micro-batch at a
        time, with all cores.
      worker_timeout: seconds to wait for the other workers; 0: as long as TensorFlow does.
    """
    if not virtual_devices and num_gpus is None:
        warn_if_unused(LOG.warning)
    if not tf.config.list_physical_devices("GPU"):
        # On a CPU the meta optimizer adds a second or two to every start and does not speed up steps (within 2%).
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    workers, index = workers_of_environment()
    if name == "auto":
        name = "multi_worker" if len(workers) > 1 else "mirrored"
    elif name == "multi_worker" and not workers:
        raise UserError(
            "`strategy=multi_worker` needs the addresses of all machines in the environment variable TF_CONFIG; print "
            "its value for each machine with t2t-lite-trainer --make_tf_config=host1:port,host2:port"
        )
    if name == "tpu":
        return _tpu_strategy()
    if is_prepared() and not (virtual_devices or xla_compile or name == "multi_worker"):
        divide_cores()  # in a command only, because other programs need the cores for other work
    if virtual_devices:
        _hide_gpus(0)
        _split_cpu(virtual_devices)
        devices = [device.name for device in tf.config.list_logical_devices("CPU")] if name != "multi_worker" else []
    else:
        _hide_gpus(num_gpus)
        devices = [device.name for device in tf.config.list_logical_devices("GPU")] if name != "multi_worker" else []
    if name == "multi_worker":
        meet_workers(workers, index, worker_timeout)
        with private_names.cpus_as_devices(virtual_devices):
            return tf.distribute.MultiWorkerMirroredStrategy()
    if len(devices) > 1 and name == "mirrored":
        private_names.number_collectives_anew()
        return tf.distribute.MirroredStrategy(devices)
    return tf.distribute.get_strategy()


def num_parallel_micro_batches(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of micro-batches to compute at once: two on a CPU with several cores, otherwise one.

    Within one micro-batch, most operations of a step are sequential and too small for several cores. If the environment
    sets TensorFlow's threads (TF_NUM_INTRAOP_THREADS, TF_NUM_INTEROP_THREADS), the result is one.
    """
    return _PARALLEL_ON_CPU if is_one_cpu(strategy) and _divides_cores() else 1


def is_one_cpu(strategy: tf.distribute.Strategy) -> bool:
    is_alone = strategy.num_replicas_in_sync == 1 and not has_workers(strategy)
    return is_alone and kinds_of_devices(strategy) == ["CPU"]


def device_memory(virtual_devices: int = 0) -> int | None:
    """Returns the free memory of each device in bytes; None if unknown. Call it before `make_strategy`.

    If the CPU will be split into virtual devices, or if several processes of this run use it, each gets an equal share
    of its memory.
    """
    if tf.config.list_physical_devices("GPU") and not virtual_devices:
        return free_memory("GPU")
    free = free_memory("CPU")
    return None if free is None else free // (max(virtual_devices, 1) * processes_on_host())


def kinds_of_devices(strategy: tf.distribute.Strategy) -> list[str]:
    """Returns the kinds of devices that a strategy uses on this worker: "CPU", "TPU" or the names of GPUs."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return ["TPU"]
    if not tf.config.list_logical_devices("GPU"):
        return ["CPU"]
    gpus = tf.config.get_visible_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
    return list(dict.fromkeys(names))


def has_gpus(strategy: tf.distribute.Strategy) -> bool:
    return kinds_of_devices(strategy)[0] not in ("CPU", "TPU")


def describe_devices(strategy: tf.distribute.Strategy) -> str:
    """Returns a description of the devices of a strategy: "1 CPU", "8 GPUs: NVIDIA H100", "2 CPUs on 2 workers"."""
    number, (first, *others) = strategy.num_replicas_in_sync, kinds_of_devices(strategy)
    kind = first if first in ("CPU", "TPU") else "GPU"
    workers = len(workers_of_environment()[0]) if has_workers(strategy) else 1
    is_virtual = kind == "CPU" and number > workers
    return "".join(
        (
            f"{number} {'virtual ' if is_virtual else ''}{kind}{'s' if number > 1 else ''}",
            f" on {workers} workers" if workers > 1 else "",
            f": {', '.join((first, *others))}" if first != kind else "",
        )
    )


def describe_workers() -> str:
    """Returns "host1:2222 (8 GPUs), host2:2222 (8 GPUs)". `make_strategy`, which connects the workers, comes first."""
    kinds: dict[tuple[str, int], list[str]] = {}
    for device in tf.config.list_logical_devices():
        if match := re.match(r"/job:(\w+)/replica:0/task:(\d+)/device:(CPU|GPU):", device.name):
            kinds.setdefault((match[1], int(match[2])), []).append(match[3])
    told = []
    for address, (_, found) in zip(workers_of_environment()[0], sorted(kinds.items())):  # the chief's job is first
        kind = "GPU" if "GPU" in found else "CPU"
        number = found.count(kind)
        told.append(f"{address} ({number} {kind}{'s' if number > 1 else ''})")
    return ", ".join(told)


def has_workers(strategy: tf.distribute.Strategy) -> bool:
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def all_reduce_sum(strategy: tf.distribute.Strategy, numbers: np.ndarray) -> np.ndarray:
    """Returns the sum of `numbers` over all workers, float64 of any shape. All workers must call it together."""
    if not has_workers(strategy):
        return numbers
    replicas_of_worker = strategy.num_replicas_in_sync // len(workers_of_environment()[0])
    per_replica = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(
            numbers * (context.replica_id_in_sync_group % replicas_of_worker == 0), tf.float64, np.shape(numbers)
        )
    )
    return strategy.reduce("SUM", per_replica, axis=None).numpy()


def all_gather(strategy: tf.distribute.Strategy, number: float) -> np.ndarray:
    """Returns the `number` of each worker, float64 [workers]. All workers must call it together."""
    if not has_workers(strategy):
        return np.array([number])
    workers, index = workers_of_environment()
    return all_reduce_sum(strategy, number * np.eye(len(workers))[index])


def divide_cores() -> None:
    """Limits each operation on a CPU to part of the cores, so that the others can compute another micro-batch.

    The number of threads changes how Eigen's matrix products round. Call it before TensorFlow computes anything.
    """
    if _divides_cores() and not tf.config.list_physical_devices("GPU"):
        with contextlib.suppress(RuntimeError):  # if TensorFlow has already computed something
            tf.config.threading.set_intra_op_parallelism_threads(num_cores() // _PARALLEL_ON_CPU)


def _divides_cores() -> bool:
    return num_cores() >= _PARALLEL_ON_CPU and not user_sets_threads()


def _split_cpu(parts: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(parts)])
    except RuntimeError as error:
        raise UserError(
            "`virtual_devices` comes too late, because this process has already used TensorFlow; start a new process"
        ) from error


def _hide_gpus(num_gpus: int | None) -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if num_gpus is None:
        return
    if num_gpus > len(gpus):
        why = f". {why_unused()}" if not gpus else ""
        raise UserError(f"`num_gpus={num_gpus}`, but TensorFlow finds {len(gpus)} GPUs here{why}")
    tf.config.set_visible_devices(gpus[:num_gpus], "GPU")


def _tpu_strategy() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        raise UserError(f"`strategy=tpu` finds no TPU: {str(error).splitlines()[0]}") from error
    return tf.distribute.TPUStrategy(resolver)
