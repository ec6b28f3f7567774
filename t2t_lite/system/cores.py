"""How many processor cores the process, and an operation in it, may use."""

import os

# Settings of TensorFlow's threads by which a user decides how the cores are used.
_THREADS_IN_ENVIRONMENT = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"
# Those of them that this process has set itself.
_set_here: set[str] = set()


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
        os.environ[name] = "1"
        _set_here.add(name)


def user_sets_threads() -> bool:
    """Returns whether the user's environment says how many threads TensorFlow uses."""
    return any(os.environ.get(name) and name not in _set_here for name in _THREADS_IN_ENVIRONMENT)
