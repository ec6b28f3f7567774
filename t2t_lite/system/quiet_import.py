"""What the import hook does while TensorFlow or Keras is executed: it holds back their log output.

Log levels, handlers and garbage collection are left alone: only our own commands change them for good, see
`tensorflow.py`.
"""

import contextlib
import gc
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# The number of open `stderr_held_back` blocks, and copies of the real standard error and of the file in its place.
_open_blocks, _real, _held = 0, -1, -1
_counting = threading.Lock()
_here = threading.local()  # whether this thread is looking for a module
# What a command's own process sets, see `prepare_process`.
is_log_shown = False
hidden_packages: tuple[str, ...] = ()


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
    global _open_blocks, _real, _held
    with _counting:
        if not _open_blocks:
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
        _open_blocks += 1
    return True


def _release(is_failed: bool) -> None:
    global _open_blocks
    with _counting:
        if not _open_blocks:  # a process that was forked inside the block
            return
        if is_failed:
            _flush()
            os.lseek(_held, 0, os.SEEK_SET)
            while said := os.read(_held, 1 << 16):
                os.write(_real, said)
            with contextlib.suppress(OSError):  # /dev/null has no length
                os.lseek(_held, 0, os.SEEK_SET)
                os.ftruncate(_held, 0)
        _open_blocks -= 1
        if not _open_blocks:
            os.dup2(_real, 2)
            os.close(_real)
            os.close(_held)


def _release_in_child() -> None:
    global _counting, _open_blocks
    _counting = threading.Lock()
    if _open_blocks:
        _open_blocks = 0
        os.dup2(_real, 2)


os.register_at_fork(after_in_child=_release_in_child)


def _flush() -> None:
    with contextlib.suppress(AttributeError, ValueError):  # sys.stderr is None or closed
        sys.stderr.flush()


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
        with stderr_held_back(), _packages_hidden():
            self._loader.exec_module(module)


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
