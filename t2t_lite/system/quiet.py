"""Imports TensorFlow without its log output and with fast settings."""

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType

from t2t_lite.errors import UserError
from t2t_lite.system.installed import check_tensorflow
from t2t_lite.system.malloc import keep_freed_memory

# The number of open `settings_restored` blocks, and the settings before the first of them.
_open_blocks = 0
_before = gc.get_threshold(), logging.NOTSET
_counting = threading.Lock()

# Packages that TensorFlow and Keras import if installed, for functions that our commands do not call.
_OPTIONAL = ("IPython", "jax", "matplotlib")
_hidden: tuple[str, ...] = ()
_is_shown = False  # whether TensorFlow's whole log is shown


def prepare_process(debug: bool = False) -> None:
    """Prepares a command's own process for TensorFlow's first import.

    The import then prints nothing and skips optional packages, which saves a second. They can be imported later, but
    the plots of `keras.visualization` remain unusable. With `debug`, TensorFlow prints its whole log.
    """
    global _hidden, _is_shown
    _hidden, _is_shown = _OPTIONAL, debug
    if not any(isinstance(finder, _QuietFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _QuietFinder())


def is_prepared() -> bool:
    return bool(_hidden)


@contextlib.contextmanager
def _packages_hidden(names: Sequence[str]) -> Iterator[None]:
    """Makes packages that are not yet imported look uninstalled inside the block."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  None: Python raises ModuleNotFoundError
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


@contextlib.contextmanager
def stderr_held_back() -> Iterator[None]:
    """Discards all output to file descriptor 2 inside the block. Python exceptions pass through."""
    if _is_shown:
        yield
        return
    try:
        real_stderr = os.dup(2)
    except OSError:  # the process has no stderr
        yield
        return
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(real_stderr, 2)
        os.close(real_stderr)
        os.close(nowhere)


def load_tensorflow() -> None:
    """Imports TensorFlow silently, makes Keras use it, whatever keras.json selects, and calls `keep_freed_memory`."""
    check_tensorflow()
    keras = sys.modules.get("keras")
    if keras is not None and keras.config.backend() != "tensorflow":
        raise UserError(
            f"Keras uses {keras.config.backend()} in this process, but t2t-lite trains and decodes with TensorFlow; "
            f"set the environment variable KERAS_BACKEND=tensorflow before importing Keras"
        )
    os.environ["KERAS_BACKEND"] = "tensorflow"
    keep_freed_memory()
    if "tensorflow" not in sys.modules:
        with _quiet_import():
            importlib.import_module("tensorflow")
    with stderr_held_back():  # GPU libraries may complain here
        sys.modules["tensorflow"].config.list_physical_devices()


def import_tensorflow() -> None:
    """Loads TensorFlow and configures the process for a longer job. After that, TensorFlow logs only errors."""
    # TensorFlow and its graphs consist of millions of permanent objects. With the default thresholds, garbage
    # collection takes a quarter of the time to the first step.
    gc.set_threshold(100_000, 50, 50)
    load_tensorflow()
    import tensorflow as tf

    if not _is_shown:
        tf.get_logger().setLevel("ERROR")


@contextlib.contextmanager
def settings_restored() -> Iterator[None]:
    """Restores, at the end of the block, the process settings that `import_tensorflow` changes.

    If blocks in several threads overlap, the last one to end restores the settings that the first one found.
    """
    global _before, _open_blocks
    logger = logging.getLogger("tensorflow")
    with _counting:
        if not _open_blocks:
            _before = gc.get_threshold(), logger.level
        _open_blocks += 1
    try:
        yield
    finally:
        with _counting:
            _open_blocks -= 1
            if not _open_blocks:
                gc.set_threshold(*_before[0])
                logger.setLevel(_before[1])


@contextlib.contextmanager
def _quiet_import() -> Iterator[None]:
    """Silences the import of TensorFlow inside the block, see `prepare_process`."""
    # TensorFlow prints some lines before it reads its log level.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if _is_shown else "3")
    with stderr_held_back(), _packages_hidden(_hidden):
        yield


class _QuietLoader(importlib.abc.Loader):
    """Wraps a loader, and discards all output to stderr while it loads the module."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with _quiet_import():
            self._loader.exec_module(module)


class _QuietFinder(importlib.abc.MetaPathFinder):
    """Suppresses TensorFlow's output at its first import, directly or through Keras.

    An import hook is needed, because modules import TensorFlow at their top, before any function can be called.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of TensorFlow with a quiet loader; None for other modules."""
        if name != "tensorflow":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _QuietLoader(spec.loader)
        return spec
