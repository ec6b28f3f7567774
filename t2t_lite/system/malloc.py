"""Keeps freed memory in the process, because a training step on a CPU would get it from the system again.

By default glibc maps a tensor of a few MB when it is allocated, and unmaps it when it is freed. The system must then
clear every page of it again at the next step: with AVX2, 15 to 50% of the time of a step of 4,096 tokens. With AVX512,
oneDNN is on, and TensorFlow keeps large tensors by itself.
"""

import contextlib
import ctypes
import os

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_FROM_ENVIRONMENT = "MALLOC_", "GLIBC_TUNABLES"


def keep_freed_memory() -> None:
    """Makes glibc keep what is freed, in two heaps for all threads.

    Two, because each thread would otherwise keep its own free memory, 300 MB after a thousand sentences. With one they
    wait for each other, and decoding takes a fifth longer. Large allocations come from the heaps, too, and the end of a
    heap is never returned to the system.

    Nothing is changed with T2T_LITE_KEEP_MEMORY=0, with settings of glibc in the environment (MALLOC_*,
    GLIBC_TUNABLES), which are then the user's choice, or without glibc.
    """
    if os.environ.get("T2T_LITE_KEEP_MEMORY") == "0" or any(name.startswith(_FROM_ENVIRONMENT) for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):  # TypeError: CDLL(None) on Windows
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  other C libraries may take the numbers for something else
        for setting in ((_M_ARENA_MAX, 2), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1)):
            libc.mallopt(*setting)
