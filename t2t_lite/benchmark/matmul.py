"""The speed of the machine, which belongs beside every time."""

import math
import time

import tensorflow as tf


def matmul_gflops(size: int = 2048) -> float:
    """Returns the speed of a float32 matrix product in TensorFlow, GFLOP/s: what times of this machine mean."""
    matrix = tf.random.normal((size, size))
    product = tf.function(lambda: tf.matmul(matrix, matrix))
    product()
    seconds = math.inf
    for _ in range(10):
        start = time.perf_counter()
        product().numpy()
        seconds = min(seconds, time.perf_counter() - start)
    return 2 * size**3 / seconds / 1e9
