"""The number of processor cores that the process may use, and the number of threads per TensorFlow operation."""

import os

# The environment variables that set the sizes of TensorFlow's thread pools.
_THREADS_IN_ENVIRONMENT = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"
# Marks that this package has set the first of these variables. Child processes inherit both.
_SET_HERE = "T2T_LITE_SETS_THREADS"


def num_cores() -> int:
    """Returns the number of cores that this process may use; `taskset` or a container may exclude some."""
    return len(os.sched_getaffinity(0))


def threads_per_operation() -> int:
    import tensorflow as tf

    of_process = tf.config.threading.get_intra_op_parallelism_threads()
    return of_process or int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0) or num_cores()


def use_one_thread_per_operation() -> None:
    """Makes each TensorFlow operation use one thread, unless the user's environment says otherwise.

    Uncompiled searches run in parallel, one batch on each core. If the cores also shared each small operation, batches
    would take 50% longer, and a single sentence twice as long. Compiled searches need several threads per operation.
    Call this before importing TensorFlow.
    """
    name = "TF_NUM_INTRAOP_THREADS"
    if name not in os.environ:
        os.environ |= {name: "1", _SET_HERE: "1"}


def user_sets_threads() -> bool:
    return _SET_HERE not in os.environ and any(map(os.environ.get, _THREADS_IN_ENVIRONMENT))
