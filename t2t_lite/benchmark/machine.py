"""Describes the machine on which a measurement runs."""

import dataclasses
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.system.machine import num_cores

if TYPE_CHECKING:  # a measuring process configures TensorFlow before importing it
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Machine:
    devices: list[str]  # the devices of the strategy, each with its kind
    threads: int  # number of CPU threads that TensorFlow uses
    matmul_gflops: float  # speed of a 2048x2048 matrix product in float32 on the first device, in GFLOP/s
    # tensorflow, keras, python: versions.
    tensorflow: str
    keras: str
    python: str


def describe_machine(strategy: "tf.distribute.Strategy") -> Machine:
    import keras
    import tensorflow as tf

    from t2t_lite.training.monitoring.peak_flops import matmul_gflops

    return Machine(
        devices=_device_names(strategy),
        threads=cpu_threads(),
        matmul_gflops=matmul_gflops(),
        tensorflow=tf.__version__,
        keras=keras.__version__,
        python=platform.python_version(),
    )


def cpu_threads() -> int:
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0) or num_cores()


def _device_names(strategy: "tf.distribute.Strategy") -> list[str]:
    """Returns a name for each device, such as "GPU:0 (NVIDIA A100)"."""
    import tensorflow as tf

    if strategy is tf.distribute.get_strategy():  # TensorFlow's default strategy, which lists no devices
        names = [(tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU"))[0].name]
    else:
        names = strategy.extended.worker_devices
    return [_with_kind(name.split("device:")[1]) for name in names]


def _with_kind(name: str) -> str:
    import tensorflow as tf

    kind, number = name.split(":")
    details = {}
    if kind == "GPU":
        details = tf.config.experimental.get_device_details(tf.config.get_visible_devices("GPU")[int(number)])
    what = _processor() if kind == "CPU" else details.get("device_name")
    return f"{name} ({what})" if what else name


def _processor() -> str:
    try:
        model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        model = None
    return model[1].strip() if model else platform.processor() or platform.machine()
