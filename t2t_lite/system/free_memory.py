"""Determines the free memory of a device."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any


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
    available = _read_numbers(root / "proc/meminfo").get("MemAvailable:")
    if available is None:
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
            return min(pynvml.nvmlDeviceGetMemoryInfo(gpu).free for gpu in _visible_gpus(pynvml))
        finally:
            pynvml.nvmlShutdown()
    except (pynvml.NVMLError, ValueError):  # no driver, an unknown GPU, or no GPU at all
        return None


def _visible_gpus(pynvml: ModuleType) -> list[Any]:
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    # CUDA gives the fastest GPU the number 0 unless CUDA_DEVICE_ORDER is set, but the driver numbers GPUs by slot. With
    # several kinds of GPUs, a number may mean a different GPU here.
    return [
        pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdecimal() else pynvml.nvmlDeviceGetHandleByUUID(name)
        for name in (part.strip() for part in names.split(","))
        if name
    ]


def _left_in_control_groups(root: Path) -> Iterator[int]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # control groups of version 2
            mount, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            mount = root / "sys/fs/cgroup/memory"
        else:
            continue
        group = PurePosixPath(path)
        for folder in (group, *group.parents):
            left = _free_in_group(mount / folder.relative_to("/"), *names)
            if left is not None:
                yield left


def _free_in_group(folder: Path, limit_name: str, used_name: str, reclaimable_name: str) -> int | None:
    """Returns the bytes that one control group still allows; None if it has no limit or its files do not exist."""
    try:
        limit, used = (int((folder / name).read_text()) for name in (limit_name, used_name))
    except (OSError, ValueError):  # the limit may be the word "max"
        return None
    # Inactive page cache counts as used, but can be reclaimed.
    reclaimable = _read_numbers(folder / "memory.stat").get(reclaimable_name, 0)
    return max(limit - max(used - reclaimable, 0), 0)


def _read_numbers(path: Path) -> dict[str, int]:
    """Returns the numbers in a file by name, from lines such as "name number"; {} if the file cannot be read."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}
