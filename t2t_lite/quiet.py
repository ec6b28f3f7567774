"""Suppresses the log output of C++ libraries."""

import contextlib
import gc
import importlib.abc
import importlib.machinery
import os
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def stderr_held_back() -> Iterator[None]:
    """Discards everything that is written to file descriptor 2 inside the block. Python exceptions pass."""
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


def import_tensorflow() -> None:
    """Imports TensorFlow and configures it for a command; afterwards it logs errors only."""
    # TensorFlow and its graphs are millions of permanent objects. With the default thresholds, garbage collection takes
    # a quarter of the time to the first step.
    gc.set_threshold(100_000, 50, 50)
    os.environ["KERAS_BACKEND"] = "tensorflow"  # training and search need TensorFlow, whatever keras.json selects
    warnings.filterwarnings("ignore", module="(keras|tensorflow|google).*")
    import tensorflow as tf

    with stderr_held_back():
        tf.config.list_physical_devices()
    tf.get_logger().setLevel("ERROR")


class _QuietLoader(importlib.abc.Loader):
    """Wraps a loader, and discards what C++ code writes to stderr while it loads."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # TensorFlow writes some lines before it reads its log level.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        module.__spec__.loader = module.__loader__ = self._loader
        with stderr_held_back():
            self._loader.exec_module(module)


class QuietFinder(importlib.abc.MetaPathFinder):
    """Suppresses what TensorFlow prints when it is first imported, directly or through Keras.

    An import hook is needed because modules import TensorFlow at their top, before any function can be called.
    """

    def find_spec(self, name, path=None, target=None):
        """Returns the spec of TensorFlow with a quiet loader; None for other modules."""
        if name != "tensorflow":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = _QuietLoader(spec.loader)
        return spec
