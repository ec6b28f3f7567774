"""The machine: processor cores, free memory, GPUs and why TensorFlow does not use them, the cache of compiled code."""

import contextlib
import functools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from t2t_lite.system.installed import install_command

# The environment variables that set the sizes of TensorFlow's thread pools.
_THREADS_IN_ENVIRONMENT = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"
# Marks that this package has set the first of these variables. Child processes inherit both.
_SET_HERE = "T2T_LITE_SETS_THREADS"


def num_cores() -> int:
    """Returns the number of cores that this process may use; `taskset` or a container may exclude some."""
    return len(os.sched_getaffinity(0))


def cpu_threads() -> int:
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0) or num_cores()


def use_one_thread_per_operation() -> None:
    """Makes each TensorFlow operation use one thread, unless the user's environment says otherwise.

    Uncompiled searches run in parallel, one batch on each core. If the cores also shared each small operation, batches
    would take 50% longer, and a single sentence twice as long. Compiled searches need several threads per operation.
    Call this before importing TensorFlow.
    """
    name = "TF_NUM_INTRAOP_THREADS"
    if name not in os.environ:
        os.environ |= {name: "1", _SET_HERE: "1"}


def user_sets_threads() -> bool:
    return _SET_HERE not in os.environ and any(map(os.environ.get, _THREADS_IN_ENVIRONMENT))


def free_memory(device_type: str, root: Path = Path("/")) -> int | None:
    """Returns the free memory of one device, in bytes; None if unknown, for example without `nvidia-ml-py`.

    For a GPU, call it before TensorFlow initializes its devices, because TensorFlow then allocates nearly all memory.
    The result for "GPU" is the minimum over those that CUDA_VISIBLE_DEVICES leaves visible. Virtual devices share the
    memory of the "CPU". `root` contains /proc and /sys.
    """
    if device_type == "GPU":
        return _free_on_gpus()
    if device_type != "CPU":
        return None
    if (available := _read_numbers(root / "proc/meminfo").get("MemAvailable:")) is None:
        return None
    return min([available * 1024, *_left_in_control_groups(root)])


def _free_on_gpus() -> int | None:
    """Returns the minimum free memory of all visible GPUs, from NVIDIA's driver; None if unknown."""
    try:
        import pynvml  # pyright: ignore[reportMissingImports]  # only the extra "cuda" has it
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            if (names := os.environ.get("CUDA_VISIBLE_DEVICES")) is None:
                names = ",".join(map(str, range(pynvml.nvmlDeviceGetCount())))
            # CUDA gives the fastest GPU the number 0 unless CUDA_DEVICE_ORDER is set, but the driver numbers GPUs by
            # slot. With several kinds of GPUs, a number may mean a different GPU here.
            gpus = [
                pynvml.nvmlDeviceGetHandleByIndex(int(name))
                if name.isdecimal()
                else pynvml.nvmlDeviceGetHandleByUUID(name)
                for name in (part.strip() for part in names.split(","))
                if name
            ]
            return min(pynvml.nvmlDeviceGetMemoryInfo(gpu).free for gpu in gpus)
        finally:
            pynvml.nvmlShutdown()
    except (pynvml.NVMLError, ValueError):  # no driver, an unknown GPU, or no GPU at all
        return None


def _left_in_control_groups(root: Path) -> Iterator[int]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # control groups of version 2
            mount, names, inactive = root / "sys/fs/cgroup", ("memory.max", "memory.current"), "inactive_file"
        elif "memory" in controllers.split(","):
            mount, names = root / "sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
            inactive = "total_inactive_file"
        else:
            continue
        group = PurePosixPath(path)
        for folder in (group, *group.parents):
            here = mount / folder.relative_to("/")
            try:
                limit, used = (int((here / name).read_text()) for name in names)
            except (OSError, ValueError):  # no such file, or no limit, which is the word "max"
                continue
            # Inactive page cache counts as used, but can be reclaimed.
            reclaimable = _read_numbers(here / "memory.stat").get(inactive, 0)
            yield max(limit - max(used - reclaimable, 0), 0)


def _read_numbers(path: Path) -> dict[str, int]:
    """Returns the numbers in a file by name, from lines such as "name number"; {} if the file cannot be read."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}


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
    if (names := os.environ.get("CUDA_VISIBLE_DEVICES")) is None:
        return [str(gpu) for gpu in range(len(list((root / "dev").glob("nvidia[0-9]*"))))]
    return [name.strip() for name in names.split(",") if name.strip() not in ("", "-1")]


@functools.cache
def why_unused() -> str:
    """Returns one line with TensorFlow's message about GPUs and the command that installs CUDA's libraries.

    A separate process imports TensorFlow, because TensorFlow logs the reason only once, and only with full logging.
    """
    import subprocess

    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_MAX_VLOG_LEVEL": "0"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        said = [str(error)]
    else:
        matches = filter(None, map(_LINE.match, done.stderr.splitlines()))
        said = dict.fromkeys(match[1].strip().rstrip(".") for match in matches)
    reason = f"TensorFlow says: {'; '.join(said)}" if said else "TensorFlow gives no reason"
    return f"{reason}. To install CUDA's libraries, run {install_command('cuda')}"


def warn_if_unused(warn: Callable[[str], None]) -> None:
    """Warns if the machine has a GPU but TensorFlow finds none. TensorFlow must already be imported."""
    if has_gpu() and not sys.modules["tensorflow"].config.list_physical_devices("GPU"):
        warn(f"this machine has a GPU, but TensorFlow uses the CPU. {why_unused()}")


def keep_compiled() -> None:
    """Makes XLA cache compiled code for later runs. Call this before importing TensorFlow.

    The cache is in $XDG_CACHE_HOME/t2t-lite, in a folder for this TensorFlow version and these kinds of processor and
    GPUs, because code that was compiled for others may not run. If the user has configured an XLA cache, it is kept.
    """
    # These take 20 ms, and --help does not need them.
    import hashlib
    import importlib.metadata
    import platform

    flags = os.environ.get("TF_XLA_FLAGS", "")
    if "persistent_cache" in flags:
        return
    processor = platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        processor += "".join(sorted({line for line in file if line.startswith(("model name", "flags", "Features"))}))
    for about in sorted(Path("/proc/driver/nvidia").glob("gpus/*/information")):
        with contextlib.suppress(OSError):
            processor += "".join(line for line in about.read_text().splitlines() if line.startswith("Model"))
    kind = f"{importlib.metadata.version('tensorflow')}-{hashlib.sha256(processor.encode()).hexdigest()[:12]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "t2t-lite" / "xla" / kind
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:  # without a cache, every run compiles again
        return
    ours = f"--tf_xla_persistent_cache_directory={cache} --tf_xla_persistent_cache_device_types=CPU,GPU"
    os.environ["TF_XLA_FLAGS"] = f"{flags} {ours}".strip()
