"""The devices of a training run: what they are, how fast, and reductions over the workers that have them."""

import contextlib
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

from t2t_lite.config import AUTO_BATCH_BY, AUTO_PRECISION, HParams
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.system.machine import free_memory, num_cores, user_sets_threads, warn_if_unused, why_unused
from t2t_lite.system.tensorflow import is_prepared
from t2t_lite.training.cluster import meet_workers, processes_on_host, workers_of_environment

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
    _hide_gpus(0 if virtual_devices else num_gpus)
    if virtual_devices:
        _split_cpu(virtual_devices)
    if name == "multi_worker":
        meet_workers(workers, index, worker_timeout)
        with cpus_as_devices(virtual_devices):
            return tf.distribute.MultiWorkerMirroredStrategy()
    devices = [device.name for device in tf.config.list_logical_devices("CPU" if virtual_devices else "GPU")]
    if len(devices) > 1 and name == "mirrored":
        # New keys for its collectives, as in TensorFlow's own tests. Otherwise, they could clash with those of an
        # earlier strategy in the same process, for example in a notebook.
        tf.distribute.MirroredStrategy._collective_key_base += 1000
        return tf.distribute.MirroredStrategy(devices)
    return tf.distribute.get_strategy()


def num_parallel_micro_batches(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of micro-batches to compute at once: two on a CPU with several cores, otherwise one.

    Within one micro-batch, most operations of a step are sequential and too small for several cores. If the environment
    sets TensorFlow's threads (TF_NUM_INTRAOP_THREADS, TF_NUM_INTEROP_THREADS), the result is one.
    """
    return _PARALLEL_ON_CPU if is_one_cpu(strategy) and _divides_cores() else 1


def is_one_cpu(strategy: tf.distribute.Strategy) -> bool:
    return strategy.num_replicas_in_sync == 1 and not has_workers(strategy) and kinds_of_devices(strategy) == ["CPU"]


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


@contextlib.contextmanager
def cpus_as_devices(number: int) -> Iterator[None]:
    """Makes MultiWorkerMirroredStrategy use `number` CPU devices per worker inside the block; 0: its default, one."""

    def local_devices(extended: object, resolver: object, worker: str) -> tuple[tuple[str, ...], str]:
        return tuple(f"{worker}/device:CPU:{i}" for i in range(number)), "CPU"

    original = CollectiveAllReduceExtended._initialize_local_devices
    if number:
        CollectiveAllReduceExtended._initialize_local_devices = local_devices  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        CollectiveAllReduceExtended._initialize_local_devices = original


def matmul_gflops(size: int = 2048, dtype: str = "float32", repeats: int = 10) -> float:
    """Returns the speed of TensorFlow's product of square matrices in GFLOP/s, from the fastest of `repeats` runs.

    If each operation uses only part of the cores (see `divide_cores`), several products run at once to use all cores.
    """
    number = num_cores() // (tf.config.threading.get_intra_op_parallelism_threads() or num_cores())
    matrices = [tf.cast(tf.random.normal((size, size)), dtype) for _ in range(max(number, 1))]
    # Fetches only one number, because copying the product from a GPU takes longer than computing it.
    products = tf.function(lambda: tf.add_n([tf.matmul(matrix, matrix)[0, 0] for matrix in matrices]))
    products()
    seconds = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        products().numpy()
        seconds = min(seconds, time.perf_counter() - start)
    return len(matrices) * 2 * size**3 / seconds / 1e9


def peak_flops(strategy: tf.distribute.Strategy, precision: str, tflops: float | None = None) -> float:
    """Returns the combined peak rate of all devices of a strategy, in operations per second.

    `tflops` is the rate of one device, in 10^12 operations per second; None: measure it with a matrix product. Virtual
    devices of one CPU share its cores and count once.
    """
    if tflops:
        return tflops * 1e12 * strategy.num_replicas_in_sync
    one = matmul_gflops(dtype=precision.removeprefix("mixed_"), repeats=3) * 1e9
    if tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("TPU"):
        return one * strategy.num_replicas_in_sync
    if strategy.cluster_resolver is None:
        return one
    workers = strategy.cluster_resolver.cluster_spec().as_dict().get("worker", ())
    return one * max(len(workers), 1)


FLOAT32, BFLOAT16 = "float32", "mixed_bfloat16"
# The minimum speed-up of matrix products for which mixed precision pays off. Casts and other operations reduce its gain
# (docs/results.md): a step of transformer_multi30k was 1.5 times as fast with products that were 1.9 times as fast, but
# 0.73 times as fast with products that were equally fast.
_LEAST_GAIN = 1.3
# The sizes of the square matrices. A product must take much longer than its launch, but on a CPU without bfloat16
# instructions, a larger one would take a second.
_SIZES = {"CPU": 1024, "GPU": 8192}
_measured: dict[str, float] = {}


class Resolved(NamedTuple):
    """What `resolve_auto` decides."""

    hparams: HParams  # without auto
    xla_compile: bool  # whether XLA compiles steps
    why: str  # the reason for the precision; "" if it was given


def resolve_auto(
    strategy: tf.distribute.Strategy,
    hparams: HParams,
    xla_compile: bool | None,
    stored: Mapping[str, str] | None = None,
) -> Resolved:
    """Replaces precision=auto and batch_by=auto by the run's values or, if it is new, by what suits the devices.

    All workers must call it together, and all do what the first one does. `stored` has the precision and batch_by that
    a run began with, which it keeps on any device, so that resuming is exact; None: a new run. Without `xla_compile`,
    XLA compiles steps on GPUs, if batches have few shapes.
    """
    stored, why = stored or {}, ""
    if hparams.precision == AUTO_PRECISION:
        if choice := stored.get("precision", ""):
            why = "as at the start of the run"
        elif isinstance(strategy, tf.distribute.TPUStrategy):
            choice, why = BFLOAT16, "in which TPUs multiply"
        else:
            choice = BFLOAT16 if product_gflops(BFLOAT16) > _LEAST_GAIN * product_gflops(FLOAT32) else FLOAT32
            why = f"because matrix products run at {_figures(BFLOAT16)} here"
        if all_gather(strategy, float(choice == BFLOAT16))[0] != (choice == BFLOAT16):
            choice, why = FLOAT32 if choice == BFLOAT16 else BFLOAT16, "as chosen by the first worker"
        hparams, why = hparams.replace(precision=choice), f"`hparams=precision={AUTO_PRECISION}`: {choice}, {why}"
    may_compile = has_gpus(strategy) if xla_compile is None else xla_compile
    may_compile = bool(all_gather(strategy, float(may_compile))[0])
    if hparams.batch_by == AUTO_BATCH_BY:
        hparams = hparams.replace(batch_by=stored.get("batch_by", "shapes" if may_compile else "both"))
    return Resolved(hparams, may_compile and (xla_compile is not None or hparams.batch_by == "shapes"), why)


def slow_precision(precision: str) -> str:
    """Returns a warning if a 16-bit precision does not pay off on this device, else ""."""
    if precision == FLOAT32 or tf.config.list_logical_devices("TPU"):
        return ""
    if _is_bfloat16_refused() and precision == BFLOAT16:
        raise UserError(
            f"`hparams=precision={BFLOAT16}`: oneDNN does not compute in bfloat16 with ONEDNN_MAX_CPU_ISA="
            f"{os.environ['ONEDNN_MAX_CPU_ISA']}; unset that variable, or set TF_ENABLE_ONEDNN_OPTS=0"
        )
    if product_gflops(precision) > _LEAST_GAIN * product_gflops(FLOAT32):
        return ""
    return (
        f"precision={precision} does not pay off here: matrix products run at {_figures(precision)}; use "
        f"precision={FLOAT32}, or start a new run with precision={AUTO_PRECISION}, which chooses the faster one"
    )


def product_gflops(precision: str) -> float:
    """Returns the speed of a matrix product on the first device, in GFLOP/s; 0 if the device cannot compute it.

    Measures each precision once per process. Call it after creating the strategy, because it initializes the devices.
    """
    if precision not in _measured:
        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        is_refused = precision == BFLOAT16 and _is_bfloat16_refused()
        speed = 0.0 if is_refused else matmul_gflops(_SIZES[kind], precision.removeprefix("mixed_"), repeats=8)
        _measured[precision] = round(speed, 1)
    return _measured[precision]


def measured_gflops() -> dict[str, float]:
    return dict(_measured)


def _figures(precision: str) -> str:
    name = precision.removeprefix("mixed_")
    return f"{product_gflops(FLOAT32):,.0f} GFLOP/s in float32 and {product_gflops(precision):,.0f} in {name}"


def _is_bfloat16_refused() -> bool:
    """Returns whether a bfloat16 product would crash the process.

    If the processor has AVX512, TensorFlow uses oneDNN for the product, and oneDNN fails if ONEDNN_MAX_CPU_ISA forbids
    AVX512.
    """
    allowed = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if (
        not allowed
        or allowed.startswith(("AVX512", "AVX10", "DEFAULT"))
        or os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0"
    ):
        return False
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
