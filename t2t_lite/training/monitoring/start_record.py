"""What log.jsonl records at each start of a training: on what it runs."""

import os
import platform

import keras
import tensorflow as tf

import t2t_lite
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.training.precision import measured_gflops
from t2t_lite.training.strategy import has_workers, kinds_of_devices
from t2t_lite.training.tf_config import workers_of_environment

FORMAT = 1


def start_record(model: Seq2SeqModel, strategy: tf.distribute.Strategy) -> dict[str, object]:
    """Returns the record: versions, devices and the number of parameters.

    Args:
      model: the model.
      strategy: the devices.

    Returns:
      format, parameters, replicas (devices of all workers), workers, devices (names of the kinds of devices of this
      worker), cores (processors of this machine), matmul_gflops (the measured speeds of a matrix product, by precision;
      empty if none was needed), and the versions of t2t_lite, tensorflow, keras and python.
    """
    return {
        "format": FORMAT,
        "t2t_lite": t2t_lite.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "python": platform.python_version(),
        "devices": kinds_of_devices(strategy),
        "replicas": strategy.num_replicas_in_sync,
        "workers": len(workers_of_environment()[0]) if has_workers(strategy) else 1,
        "cores": os.cpu_count(),
        "parameters": model.count_params(),
        "matmul_gflops": measured_gflops(),
    }
