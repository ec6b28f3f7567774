"""Keeps the chatter of C++ libraries from the user."""

import contextlib
import gc
import os
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def stderr_held_back() -> Iterator[None]:
    """Throws away what C++ code writes to file descriptor 2 inside the block. Python's exceptions pass."""
    sys.stderr.flush()
    real_stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(real_stderr, 2)
        os.close(real_stderr)
        os.close(nowhere)


def import_tensorflow() -> None:
    """Imports TensorFlow quietly; afterwards it reports errors only."""
    # TensorFlow and its graphs are millions of objects that stay. To look for garbage among them again and again takes
    # a quarter of the time to the first step.
    gc.set_threshold(100_000, 50, 50)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["KERAS_BACKEND"] = "tensorflow"  # training and search are TensorFlow's, whatever keras.json says
    warnings.filterwarnings("ignore", module="(keras|tensorflow|google).*")
    # Some lines are written before TensorFlow looks at its log level.
    with stderr_held_back():
        import tensorflow as tf

        tf.config.list_physical_devices()
    tf.get_logger().setLevel("ERROR")
