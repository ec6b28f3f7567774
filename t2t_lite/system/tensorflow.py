"""Prepares a process for TensorFlow: what must precede its import, and settings that last for one job.

How the import itself stays silent is in `import_hook.py`.
"""

import contextlib
import ctypes
import gc
import importlib
import logging
import os
import sys
import threading
from collections.abc import Iterator

from t2t_lite.errors import UserError
from t2t_lite.system import import_hook
from t2t_lite.system.import_hook import stderr_held_back
from t2t_lite.system.installed import check_tensorflow

# The number of open `tensorflow_job` blocks, and the settings before the first of them.
_open_blocks = 0
_before = gc.get_threshold(), logging.NOTSET, os.environ.get("KERAS_BACKEND")
_counting = threading.Lock()

# Packages that TensorFlow and Keras import if installed, for functions that our commands do not call.
_OPTIONAL = ("IPython", "jax", "matplotlib")

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_FROM_ENVIRONMENT = "MALLOC_", "GLIBC_TUNABLES"


def prepare_process(debug: bool = False) -> None:
    """Prepares a command's own process for TensorFlow's first import.

    The import then also skips optional packages, which saves a second, and TensorFlow logs only fatal errors. The
    packages can be imported later, but the plots of `keras.visualization` remain unusable. With `debug`, TensorFlow
    prints its whole log.
    """
    import_hook.hidden_packages, import_hook.is_log_shown = _OPTIONAL, debug
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if debug else "3")
    import_hook.install()


def is_prepared() -> bool:
    return bool(import_hook.hidden_packages)


def load_tensorflow() -> None:
    """Imports TensorFlow, and Keras with it, whatever keras.json or KERAS_BACKEND selects, and frees no memory.

    Raises UserError if TensorFlow is not installed, or the process uses Keras with another backend.
    """
    backend = os.environ.get("KERAS_BACKEND")
    _load()
    importlib.import_module("keras")
    _set_backend(backend)


def import_tensorflow() -> None:
    """Imports TensorFlow and configures the process for a longer job. After that, TensorFlow logs only errors."""
    # TensorFlow and its graphs consist of millions of permanent objects. With the default thresholds, garbage
    # collection takes a quarter of the time to the first step.
    gc.set_threshold(100_000, 50, 50)
    _load()
    if not import_hook.is_log_shown:
        sys.modules["tensorflow"].get_logger().setLevel("ERROR")


def _load() -> None:
    check_tensorflow()
    keras = sys.modules.get("keras")
    if keras is not None and keras.config.backend() != "tensorflow":
        raise UserError(
            f"Keras uses {keras.config.backend()} in this process, but t2t-lite trains and decodes with TensorFlow; "
            f"set the environment variable KERAS_BACKEND=tensorflow before importing Keras"
        )
    os.environ["KERAS_BACKEND"] = "tensorflow"
    keep_freed_memory()
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL")
    # TensorFlow reads it once. Some lines precede that; the hook holds them back.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        tensorflow = importlib.import_module("tensorflow")  # waits for another thread that is importing it
    finally:
        if level is None:
            os.environ.pop("TF_CPP_MIN_LOG_LEVEL", None)
    with stderr_held_back():  # GPU libraries may complain here
        tensorflow.config.list_physical_devices()


@contextlib.contextmanager
def tensorflow_job() -> Iterator[None]:
    """Calls `import_tensorflow`, and restores the settings of the process that it changes at the end of the block.

    If blocks in several threads overlap, the last one to end restores the settings that the first one found.
    """
    global _before, _open_blocks
    logger = logging.getLogger("tensorflow")
    with _counting:
        if not _open_blocks:
            _before = gc.get_threshold(), logger.level, os.environ.get("KERAS_BACKEND")
        _open_blocks += 1
    try:
        import_tensorflow()
        yield
    finally:
        with _counting:
            _open_blocks -= 1
            if not _open_blocks:
                gc.set_threshold(*_before[0])
                logger.setLevel(_before[1])
                _set_backend(_before[2])


def _set_backend(name: str | None) -> None:
    if name is None:
        os.environ.pop("KERAS_BACKEND", None)
    else:
        os.environ["KERAS_BACKEND"] = name


def keep_freed_memory() -> None:
    """Makes glibc keep freed memory in two heaps for all threads, so that steps do not request it again.

    By default, glibc maps the memory of a tensor of a few MB when it is allocated, and unmaps it when it is freed, so
    the system must clear all its pages again at the next step. With AVX2, this takes 15 to 50% of the time of a step of
    4,096 tokens. With AVX512, oneDNN is on, and TensorFlow itself keeps the memory of large tensors.

    Without a limit on heaps, each thread would keep its own free memory, 300 MB after a thousand sentences. With one
    heap, threads would wait for each other, and decoding would take 20% longer. Large allocations also come from the
    heaps, and the end of a heap is never returned to the system.

    The function does nothing if T2T_LITE_KEEP_MEMORY=0, if the environment has the user's own glibc settings (MALLOC_*,
    GLIBC_TUNABLES), or without glibc.
    """
    if os.environ.get("T2T_LITE_KEEP_MEMORY") == "0" or any(name.startswith(_FROM_ENVIRONMENT) for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):  # TypeError: CDLL(None) on Windows
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  in other C libraries, the numbers may mean something else
        for setting in ((_M_ARENA_MAX, 2), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1)):
            libc.mallopt(*setting)
