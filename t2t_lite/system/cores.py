"""How many processor cores the process, and an operation in it, may use."""

import os


def num_cores() -> int:
    """Returns the number of cores, without those that `taskset` or a container excludes."""
    return len(os.sched_getaffinity(0))


def threads_per_operation() -> int:
    """Returns how many threads one TensorFlow operation may use."""
    import tensorflow as tf

    of_process = tf.config.threading.get_intra_op_parallelism_threads()
    return of_process or int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0) or num_cores()
