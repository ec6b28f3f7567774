"""What glibc does with large allocations after `keep_freed_memory`, in processes of their own, by its own count."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")

_MIB = 2**20
# Prints how many blocks glibc maps for 64 MiB, and how many free bytes it has once these are freed.
_COUNT = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS.split()]
libc.mallinfo2.restype = Mallinfo2
before = libc.mallinfo2().hblks
block = libc.malloc(64 << 20)
mapped = libc.mallinfo2().hblks - before
libc.free(block)
print(mapped, libc.mallinfo2().fordblks)
"""
_BY_COMMAND = """
import sys
sys.argv = ["t2t-lite-params", "--help"]
from t2t_lite.bin.params import main
try:
    main()
except SystemExit:
    pass
"""
_BY_API = "from t2t_lite.system.tensorflow import load_tensorflow; load_tensorflow()"


def counted(code, **settings):
    """Runs Python code in a process with these environment variables; returns what `_COUNT` prints after it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", code + _COUNT]
    result = subprocess.run(command, env=environment | settings, check=True, capture_output=True, text=True)
    return tuple(map(int, result.stdout.splitlines()[-1].split()))


@pytest.mark.heavy
@pytest.mark.parametrize("code", [_BY_COMMAND, _BY_API], ids=["command", "python"])
def test_large_blocks_come_from_the_heap_and_stay_there(code):
    mapped, free = counted(code)
    assert mapped == 0 and free >= 64 * _MIB


SETTINGS = [{"T2T_LITE_KEEP_MEMORY": "0"}, {"MALLOC_ARENA_MAX": "2"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_users_own_settings_are_left_alone(settings):
    mapped, free = counted(_BY_COMMAND, **settings)
    assert mapped == 1 and free < 64 * _MIB
