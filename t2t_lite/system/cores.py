"""How many processor cores the process, and an operation in it, may use."""

import os

# Settings of TensorFlow's threads by which a user decides how the cores are used.
_THREADS_IN_ENVIRONMENT = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"
# Says that this package has set the first of them; processes that are started from this one inherit both.
_SET_HERE = "T2T_LITE_SETS_THREADS"


def num_cores() -> int:
    """Returns the number of cores, without those that `taskset` or a container excludes."""
    return len(os.sched_getaffinity(0))


def threads_per_operation() -> int:
    """Returns how many threads one TensorFlow operation may use."""
    import tensorflow as tf

    of_process = tf.config.threading.get_intra_op_parallelism_threads()
    return of_process or int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0) or num_cores()


def use_one_thread_per_operation() -> None:
    """Makes an operation of TensorFlow use one thread, unless the user's environment says otherwise.

    Uncompiled searches run in parallel, a batch on each core. If their small operations were divided among all cores as
    well, batches would take half as long again, and one sentence twice as long. Compiled ones need the threads. Call it
    before TensorFlow is imported.
    """
    name = "TF_NUM_INTRAOP_THREADS"
    if name not in os.environ:
        os.environ |= {name: "1", _SET_HERE: "1"}


def user_sets_threads() -> bool:
    """Returns whether the user's environment says how many threads TensorFlow uses."""
    return _SET_HERE not in os.environ and any(map(os.environ.get, _THREADS_IN_ENVIRONMENT))
