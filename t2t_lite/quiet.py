"""Keeps the chatter of C++ libraries from the user."""

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
    """Throws away what C++ code writes to file descriptor 2 inside the block. Python's exceptions pass."""
    try:
        real_stderr = os.dup(2)
    except OSError:  # a program without one
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
    """Imports TensorFlow and sets it up for a command; afterwards it reports errors only."""
    # TensorFlow and its graphs are millions of objects that stay. To look for garbage among them again and again takes
    # a quarter of the time to the first step.
    gc.set_threshold(100_000, 50, 50)
    os.environ["KERAS_BACKEND"] = "tensorflow"  # training and search are TensorFlow's, whatever keras.json says
    warnings.filterwarnings("ignore", module="(keras|tensorflow|google).*")
    import tensorflow as tf

    with stderr_held_back():
        tf.config.list_physical_devices()
    tf.get_logger().setLevel("ERROR")


class _QuietLoader(importlib.abc.Loader):
    """Loads as another loader does, with what C++ code writes meanwhile held back."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # Some lines are written before TensorFlow looks at its log level.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        module.__spec__.loader = module.__loader__ = self._loader
        with stderr_held_back():
            self._loader.exec_module(module)


class QuietFinder(importlib.abc.MetaPathFinder):
    """Holds back what TensorFlow prints while it is first imported, directly or through Keras.

    An import hook, because modules import TensorFlow at their top, before any function of ours could be called.
    """

    def find_spec(self, name, path=None, target=None):
        """Returns the spec of TensorFlow with a quiet loader; None for all else."""
        if name != "tensorflow":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = _QuietLoader(spec.loader)
        return spec
