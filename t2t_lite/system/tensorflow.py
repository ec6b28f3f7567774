"""The import of TensorFlow: what must precede it, how it stays silent, and settings that last for one job.

The import hook (`import_hook.py`) holds back the log output of TensorFlow and Keras while they are executed. Log
levels, handlers and garbage collection are left alone: only our own commands change them for good.
"""

import contextlib
import ctypes
import gc
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from t2t_lite.errors import UserError
from t2t_lite.system.installed import install_command
from t2t_lite.system.machine import keep_compiled, use_one_thread_per_operation

# The number of open `_settings_restored` blocks, and the settings before the first of them.
_jobs = 0
_before = gc.get_threshold(), logging.NOTSET, os.environ.get("KERAS_BACKEND")
_counting_jobs = threading.Lock()
# Packages that TensorFlow and Keras import if installed, for functions that our commands do not call.
_OPTIONAL = ("IPython", "jax", "matplotlib")
# The number of open `stderr_held_back` blocks, and copies of the real standard error and of the file in its place.
_blocks_holding, _real, _held = 0, -1, -1
_holding = threading.Lock()
_here = threading.local()  # whether this thread is looking for a module
# What a command's own process sets, see `prepare_process`.
is_log_shown = False
hidden_packages: tuple[str, ...] = ()
# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_FROM_ENVIRONMENT = "MALLOC_", "GLIBC_TUNABLES"


def prepare_process(debug: bool = False) -> None:
    """Prepares a command's own process for TensorFlow's first import.

    The import then also skips optional packages, which saves a second, garbage is collected rarely, Keras uses
    TensorFlow, and TensorFlow logs only fatal errors. The packages can be imported later, but the plots of
    `keras.visualization` remain unusable. With `debug`, TensorFlow prints its whole log.
    """
    global hidden_packages, is_log_shown
    hidden_packages, is_log_shown = _OPTIONAL, debug
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if debug else "3")


def is_prepared() -> bool:
    return bool(hidden_packages)


def load_tensorflow() -> None:
    """Imports TensorFlow, and Keras with this backend, whatever keras.json or KERAS_BACKEND selects.

    Raises UserError if TensorFlow is not installed, or the process uses Keras with another backend.
    """
    with _settings_restored():
        _load()
        importlib.import_module("keras")


def import_tensorflow() -> None:
    """Imports TensorFlow and configures the process for a longer job. After that, TensorFlow logs only errors."""
    collect_garbage_rarely()
    _load()
    if not is_log_shown:
        sys.modules["tensorflow"].get_logger().setLevel("ERROR")


def import_for_searches(xla_compile: bool | None = None) -> None:
    """Imports TensorFlow and configures the process for searches; they are compiled, or batches run in parallel."""
    keep_compiled()
    if not xla_compile:
        use_one_thread_per_operation()
    import_tensorflow()


@contextlib.contextmanager
def tensorflow_job() -> Iterator[None]:
    """Calls `import_tensorflow`, and restores the settings of the process that it changes at the end of the block."""
    with _settings_restored():
        import_tensorflow()
        yield


def _load() -> None:
    if importlib.util.find_spec("tensorflow") is None:
        raise UserError(f"this needs TensorFlow; run {install_command('')}")
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
def _settings_restored() -> Iterator[None]:
    """Restores thresholds of garbage collection, TensorFlow's log level and KERAS_BACKEND at the end of the block.

    If blocks in several threads overlap, the last one to end restores the settings that the first one found.
    """
    global _before, _jobs
    logger = logging.getLogger("tensorflow")
    with _counting_jobs:
        if not _jobs:
            _before = gc.get_threshold(), logger.level, os.environ.get("KERAS_BACKEND")
        _jobs += 1
    try:
        yield
    finally:
        with _counting_jobs:
            _jobs -= 1
            if not _jobs:
                gc.set_threshold(*_before[0])
                logger.setLevel(_before[1])
                os.environ.pop("KERAS_BACKEND", None)
                os.environ |= {} if _before[2] is None else {"KERAS_BACKEND": _before[2]}


def keep_freed_memory() -> None:
    """Makes glibc keep freed memory in two heaps for all threads, so that steps on a CPU do not request it again.

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


def collect_garbage_rarely() -> None:
    # TensorFlow and its graphs consist of millions of permanent objects. With the default thresholds, garbage
    # collection takes a quarter of the time to the first step.
    gc.set_threshold(100_000, 50, 50)


@contextlib.contextmanager
def stderr_held_back() -> Iterator[None]:
    """Holds back what is written to file descriptor 2 inside the block, and shows it only if the block fails.

    Blocks in several threads may overlap. The last one to end restores the descriptor.
    """
    if is_log_shown or not _hold():
        yield
        return
    is_failed = False
    try:
        yield
    except Exception:  # not Ctrl-C
        is_failed = True
        raise
    finally:
        _release(is_failed)


def _hold() -> bool:
    """Returns False if the process has no standard error."""
    global _blocks_holding, _real, _held
    with _holding:
        if not _blocks_holding:
            try:
                _real = os.dup(2)
            except OSError:
                return False
            _flush()
            try:
                _held = os.memfd_create("stderr")
            except (OSError, AttributeError):  # not on Linux, or forbidden: nothing can be shown later
                _held = os.open(os.devnull, os.O_RDWR)
            os.dup2(_held, 2)
        _blocks_holding += 1
    return True


def _release(is_failed: bool) -> None:
    global _blocks_holding
    with _holding:
        if not _blocks_holding:  # a process that was forked inside the block
            return
        if is_failed:
            _flush()
            os.lseek(_held, 0, os.SEEK_SET)
            while said := os.read(_held, 1 << 16):
                os.write(_real, said)
            with contextlib.suppress(OSError):  # /dev/null has no length
                os.lseek(_held, 0, os.SEEK_SET)
                os.ftruncate(_held, 0)
        _blocks_holding -= 1
        if not _blocks_holding:
            os.dup2(_real, 2)
            os.close(_real)
            os.close(_held)


def _release_in_child() -> None:
    global _holding, _blocks_holding
    _holding = threading.Lock()
    if _blocks_holding:
        _blocks_holding = 0
        os.dup2(_real, 2)


os.register_at_fork(after_in_child=_release_in_child)


def _flush() -> None:
    with contextlib.suppress(AttributeError, ValueError):  # sys.stderr is None or closed
        sys.stderr.flush()


def _keras_backend() -> str:
    """Returns the backend that Keras will use, which it reads from the same places."""
    if name := os.environ.get("KERAS_BACKEND"):
        return name
    import json  # only now, because `import t2t_lite` should take milliseconds

    folder = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    try:
        with open(os.path.join(folder, "keras.json"), encoding="utf-8") as file:
            return json.load(file).get("backend", "tensorflow")
    except (OSError, ValueError, AttributeError):
        return "tensorflow"


class _Loader:
    """Wraps the loader of TensorFlow or Keras until it executes the module."""

    def __init__(self, loader: Any) -> None:  # noqa: ANN401  any kind of loader
        self._loader = loader

    def __getattr__(self, name: str) -> object:  # what else a loader can do, such as get_filename
        if name == "_loader":  # a copy that is not yet filled
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        if module.__name__ == "keras" and _keras_backend() == "tensorflow":
            # Keras imports parts of TensorFlow; if another thread were importing TensorFlow, both could fail.
            with contextlib.suppress(ImportError):
                importlib.import_module("tensorflow")
        if hidden_packages:
            collect_garbage_rarely()
        # Optional packages that are not yet imported look uninstalled meanwhile.
        hidden = [name for name in hidden_packages if name not in sys.modules]
        with stderr_held_back():
            sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  None: Python raises ModuleNotFoundError
            try:
                self._loader.exec_module(module)
            finally:
                for name in hidden:
                    sys.modules.pop(name, None)


def wrapped_spec(hook: object, name: str, target: ModuleType | None) -> ModuleSpec | None:
    """Returns what the other finders find, with a `_Loader`. Returns None while this is being asked already."""
    if getattr(_here, "is_asking", False):  # another hook may ask all finders, too
        return None
    _here.is_asking = True
    try:
        found = (finder.find_spec(name, None, target) for finder in sys.meta_path if finder is not hook)
        spec = next(filter(None, found), None)
    finally:
        _here.is_asking = False
    if spec is not None and spec.loader is not None:
        spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  it does all that a loader must
    return spec
