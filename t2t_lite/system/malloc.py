"""Keeps freed memory in the process, because getting it from the system again costs half of a training step on a CPU.

By default glibc maps a tensor of a few MB when it is allocated, and unmaps it when it is freed. The system must then
clear every page of it again at the next step: 400,000 page faults in a step of 4,096 tokens.
"""

import ctypes
import os

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_FROM_ENVIRONMENT = "MALLOC_", "GLIBC_TUNABLES"


def keep_freed_memory() -> bool:
    """Makes glibc keep what is freed, in two heaps for all threads; returns whether it does.

    Two, because each thread would otherwise keep its own free memory, 300 MB after a thousand sentences. With one they
    wait for each other, and decoding takes a fifth longer. Large allocations come from the heaps, too, and the end of a
    heap is never returned to the system.

    Nothing is changed with T2T_LITE_KEEP_MEMORY=0, with settings of glibc in the environment (MALLOC_*,
    GLIBC_TUNABLES), which are then the user's choice, or without glibc.
    """
    if os.environ.get("T2T_LITE_KEEP_MEMORY") == "0" or any(name.startswith(_FROM_ENVIRONMENT) for name in os.environ):
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  other C libraries may take the numbers for something else
        accepted = [
            libc.mallopt(*setting) for setting in ((_M_ARENA_MAX, 2), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1))
        ]
    except (OSError, AttributeError, TypeError):  # TypeError: CDLL(None) on Windows
        return False
    return all(accepted)
