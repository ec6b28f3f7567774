"""Keeps the chatter of C++ libraries from the user."""

import contextlib
import gc
import hashlib
import importlib.metadata
import os
import platform
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path


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


def keep_compiled() -> None:
    """Makes XLA keep what it compiles, for later runs. To be called before TensorFlow is imported.

    It lies in $XDG_CACHE_HOME/t2t-lite, in a folder for this TensorFlow on this kind of processor: code for another one
    may not run. An XLA cache that the user has set up is left alone.
    """
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if "persistent_cache" in flags:
        return
    processor = platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        processor += "".join(sorted({line for line in file if line.startswith(("model name", "flags", "Features"))}))
    kind = f"{importlib.metadata.version('tensorflow')}-{hashlib.sha256(processor.encode()).hexdigest()[:12]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "t2t-lite" / "xla" / kind
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:  # no place to keep it: it is compiled each time
        return
    ours = f"--tf_xla_persistent_cache_directory={cache} --tf_xla_persistent_cache_device_types=CPU"
    os.environ["TF_XLA_FLAGS"] = f"{flags} {ours}".strip()


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
