"""TensorFlow as tests use it: set up once in each process, before anything is computed."""

import atexit
import gc
import os
import shutil
import sys
import tempfile

from t2t_lite.system.tensorflow import stderr_held_back


def before_import() -> None:
    """Sets what TensorFlow reads when it is imported; workers of pytest-xdist inherit it."""
    if "ONEDNN_MAX_CPU_ISA" in os.environ:
        # Another processor is imitated. TensorFlow sees the real one, gives bfloat16 to oneDNN if it has AVX512, and
        # oneDNN ends the process.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    if "TF_XLA_FLAGS" not in os.environ:
        folder = tempfile.mkdtemp(prefix="t2t-lite-tests-xla-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["TF_XLA_FLAGS"] = (
            f"--tf_xla_persistent_cache_directory={folder} --tf_xla_persistent_cache_device_types=CPU"
        )


def after_import() -> None:
    """Sets TensorFlow up if a test module has imported it."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return
    from t2t_lite.training.devices import divide_cores

    with stderr_held_back():
        tensorflow.config.list_physical_devices()  # libraries for GPUs complain here, if they do
    # As the trainer does on a CPU. Bit-equal results need the same number of threads in an operation; and optimizing
    # graphs takes longer than small ones run.
    divide_cores()
    tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    # TensorFlow's millions of objects stay: not to be searched again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
