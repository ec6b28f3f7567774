"""How many processor cores the process may use."""

import os


def num_cores() -> int:
    """Returns the number of cores, without those that `taskset` or a container excludes."""
    return len(os.sched_getaffinity(0))
