"""Prepares a process for TensorFlow: what must precede its import, and settings that last for one job.

How the import itself stays silent is in `quiet_import.py`.
"""

import contextlib
import gc
import importlib
import logging
import os
import sys
import threading
from collections.abc import Iterator

from t2t_lite.errors import UserError
from t2t_lite.system import import_hook, quiet_import
from t2t_lite.system.installed import check_tensorflow
from t2t_lite.system.malloc import keep_freed_memory

# The number of open `_settings_restored` blocks, and the settings before the first of them.
_open_blocks = 0
_before = gc.get_threshold(), logging.NOTSET, os.environ.get("KERAS_BACKEND")
_counting = threading.Lock()

# Packages that TensorFlow and Keras import if installed, for functions that our commands do not call.
_OPTIONAL = ("IPython", "jax", "matplotlib")


def prepare_process(debug: bool = False) -> None:
    """Prepares a command's own process for TensorFlow's first import.

    The import then also skips optional packages, which saves a second, garbage is collected rarely, Keras uses
    TensorFlow, and TensorFlow logs only fatal errors. The packages can be imported later, but the plots of
    `keras.visualization` remain unusable. With `debug`, TensorFlow prints its whole log.
    """
    quiet_import.hidden_packages, quiet_import.is_log_shown = _OPTIONAL, debug
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if debug else "3")
    import_hook.install()


def is_prepared() -> bool:
    return bool(quiet_import.hidden_packages)


def load_tensorflow() -> None:
    """Imports TensorFlow, and Keras with this backend, whatever keras.json or KERAS_BACKEND selects.

    Raises UserError if TensorFlow is not installed, or the process uses Keras with another backend.
    """
    with _settings_restored():
        _load()
        importlib.import_module("keras")


def import_tensorflow() -> None:
    """Imports TensorFlow and configures the process for a longer job. After that, TensorFlow logs only errors."""
    quiet_import.collect_garbage_rarely()
    _load()
    if not quiet_import.is_log_shown:
        sys.modules["tensorflow"].get_logger().setLevel("ERROR")


@contextlib.contextmanager
def tensorflow_job() -> Iterator[None]:
    """Calls `import_tensorflow`, and restores the settings of the process that it changes at the end of the block."""
    with _settings_restored():
        import_tensorflow()
        yield


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
    with quiet_import.stderr_held_back():  # GPU libraries may complain here
        tensorflow.config.list_physical_devices()


@contextlib.contextmanager
def _settings_restored() -> Iterator[None]:
    """Restores thresholds of garbage collection, TensorFlow's log level and KERAS_BACKEND at the end of the block.

    If blocks in several threads overlap, the last one to end restores the settings that the first one found.
    """
    global _before, _open_blocks
    logger = logging.getLogger("tensorflow")
    with _counting:
        if not _open_blocks:
            _before = gc.get_threshold(), logger.level, os.environ.get("KERAS_BACKEND")
        _open_blocks += 1
    try:
        yield
    finally:
        with _counting:
            _open_blocks -= 1
            if not _open_blocks:
                gc.set_threshold(*_before[0])
                logger.setLevel(_before[1])
                os.environ.pop("KERAS_BACKEND", None)
                os.environ |= {} if _before[2] is None else {"KERAS_BACKEND": _before[2]}
