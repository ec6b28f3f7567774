"""A program ends although a pipeline reads ahead with Python functions."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.batching import call_numpy

# A module's iterator is deleted when the interpreter ends, while a function runs in one of the pipeline's threads.
PROGRAM = """
import time
import tensorflow as tf
from t2t_lite.data.batching import call_numpy

def slow(number):
    time.sleep(0.02)
    return number

numbers = tf.data.Dataset.range(2**40).map(lambda number: call_numpy(slow, [number], [tf.int64])[0])
iterator = iter(numbers.prefetch(1000))
next(iterator)
print("end")
"""


def test_a_function_can_return_one_array_or_several():
    def double(numbers):
        return 2 * numbers

    def both(numbers):
        return numbers, np.float32(numbers.sum())

    (doubled,) = call_numpy(double, [tf.range(3)], [tf.int32])
    same, total = call_numpy(both, [tf.range(3)], [tf.int32, tf.float32])
    assert doubled.numpy().tolist() == [0, 2, 4]
    assert same.numpy().tolist() == [0, 1, 2] and total.numpy() == 3


@pytest.mark.slow
def test_a_program_ends_while_a_pipeline_reads_ahead():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0 and ended.stdout == "end\n", ended.stderr
