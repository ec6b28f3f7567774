"""Measures the machine's peak speed, the reference for utilisation and benchmark times."""

import math
import time

import tensorflow as tf

from t2t_lite.system.machine import num_cores


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
