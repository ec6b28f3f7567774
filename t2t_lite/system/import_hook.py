"""Imports TensorFlow and Keras without their log output, wherever a module imports them.

`import t2t_lite` installs the hook, so that modules can import TensorFlow at their top. It acts only while `tensorflow`
or `keras` is executed, not when somebody looks for them, and never if TensorFlow was imported first. Log levels,
handlers and garbage collection are left alone: only our own commands change them for good, see `tensorflow.py`.
"""

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_NAMES = ("tensorflow", "keras")
# The number of open `stderr_held_back` blocks, and copies of the real standard error and of the file in its place.
_open_blocks, _real, _held = 0, -1, -1
_counting = threading.Lock()
# What a command's own process sets, see `prepare_process`.
is_log_shown = False
hidden_packages: tuple[str, ...] = ()


def install() -> None:
    """Installs the hook, once, unless TensorFlow is imported already."""
    if "tensorflow" not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


@contextlib.contextmanager
def stderr_held_back() -> Iterator[None]:
    """Holds back what is written to file descriptor 2 inside the block, and shows it only if the block fails.

    Blocks in several threads may overlap. The last one to end restores the descriptor.
    """
    if is_log_shown or not _hold():
        yield
        return
    try:
        yield
    except BaseException:
        _release(is_failed=True)
        raise
    _release()


def _hold() -> bool:
    """Returns False if the process has no standard error."""
    global _open_blocks, _real, _held
    with _counting:
        if not _open_blocks:
            try:
                _real = os.dup(2)
            except OSError:
                return False
            if sys.stderr:
                sys.stderr.flush()
            _held = os.memfd_create("stderr") if hasattr(os, "memfd_create") else os.open(os.devnull, os.O_RDWR)
            os.dup2(_held, 2)
        _open_blocks += 1
    return True


def _release(is_failed: bool = False) -> None:
    global _open_blocks
    with _counting:
        if is_failed:
            if sys.stderr:
                sys.stderr.flush()
            os.lseek(_held, 0, os.SEEK_SET)
            while said := os.read(_held, 1 << 16):
                os.write(_real, said)
        _open_blocks -= 1
        if not _open_blocks:
            os.dup2(_real, 2)
            os.close(_real)
            os.close(_held)


@contextlib.contextmanager
def _packages_hidden() -> Iterator[None]:
    """Makes `hidden_packages` that are not yet imported look uninstalled inside the block."""
    hidden = [name for name in hidden_packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  None: Python raises ModuleNotFoundError
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


class _Loader:
    """Wraps the loader of TensorFlow or Keras until it executes the module."""

    def __init__(self, loader: Any) -> None:  # noqa: ANN401  any kind of loader
        self._loader = loader

    def __getattr__(self, name: str) -> object:  # what else a loader can do, such as get_filename
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        if module.__name__ == "tensorflow":
            from t2t_lite.system.tensorflow import keep_freed_memory  # its imports would delay `import t2t_lite`

            keep_freed_memory()
        elif os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
            # Keras imports parts of TensorFlow; if another thread were importing TensorFlow, both could fail.
            with contextlib.suppress(ImportError):
                importlib.import_module("tensorflow")
        is_late = module.__name__ != "tensorflow" and "tensorflow" in sys.modules
        with contextlib.nullcontext() if is_late else stderr_held_back(), _packages_hidden():
            self._loader.exec_module(module)


class _Finder:
    """Finds TensorFlow and Keras where Python does, and wraps their loaders."""

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _NAMES:
            return None
        spec = PathFinder.find_spec(name, None, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  it does all that a loader must
        return spec
