"""Detects whether the machine has GPUs that TensorFlow does not use, and why."""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from t2t_lite.system.installed import install_command

# Matches lines in TensorFlow's log that may give the reason, after
# "I0000 00:00:1795506525.663648   11437 cudart_stub.cc:31] ".
_LINE = re.compile(
    r"[IWEF]\d{4} \S+ +\d+ [\w.]+:\d+\] (.*(?:cuda|cudnn|cuinit|nvidia|nvml|gpu|dlopen).*)", re.IGNORECASE
)
_PROGRAM = "import tensorflow as tf; tf.config.list_physical_devices()"


def has_gpu(root: Path = Path("/")) -> bool:
    """Returns whether there seems to be an NVIDIA GPU that CUDA_VISIBLE_DEVICES does not hide. /dev is in `root`."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return any((root / "dev").glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


def visible_gpus(root: Path = Path("/")) -> list[str]:
    """Returns the names of the GPUs for CUDA_VISIBLE_DEVICES, without starting CUDA. /dev is in `root`."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        number = len(list((root / "dev").glob("nvidia[0-9]*")))
        return [str(gpu) for gpu in range(number)]
    return [name.strip() for name in names.split(",") if name.strip() not in ("", "-1")]


@functools.cache
def why_unused() -> str:
    """Returns one line with TensorFlow's message about GPUs and the command that installs CUDA's libraries.

    A separate process imports TensorFlow, because TensorFlow logs the reason only once, and only with full logging.
    """
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_MAX_VLOG_LEVEL": "0"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        said = [str(error)]
    else:
        said = dict.fromkeys(
            match[1].strip().rstrip(".") for match in map(_LINE.match, done.stderr.splitlines()) if match
        )
    reason = f"TensorFlow says: {'; '.join(said)}" if said else "TensorFlow gives no reason"
    return f"{reason}. To install CUDA's libraries, run {install_command('cuda')}"


def warn_if_unused(warn: Callable[[str], None]) -> None:
    """Warns if the machine has a GPU but TensorFlow finds none. TensorFlow must already be imported."""
    import tensorflow as tf

    if has_gpu() and not tf.config.list_physical_devices("GPU"):
        warn(f"this machine has a GPU, but TensorFlow uses the CPU. {why_unused()}")
