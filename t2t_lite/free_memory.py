"""How much memory is free for a device."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def free_memory(device_type: str, root: Path = Path("/")) -> int | None:
    """Returns the bytes that are free for one device.

    For a GPU ask before TensorFlow makes its devices: it then takes nearly all of their memory, to share it out itself.

    Args:
      device_type: "CPU", or "GPU": the least that is free on any of those that CUDA_VISIBLE_DEVICES leaves visible.
        All devices of one CPU share what is free.
      root: the folder that /proc and /sys are looked up in.

    Returns:
      bytes; None if they are not known: no Linux, no NVIDIA driver or no `nvidia-ml-py`, or another kind of device.
    """
    if device_type == "GPU":
        return _free_on_gpus()
    if device_type != "CPU":
        return None
    available = _numbers_of(root / "proc/meminfo").get("MemAvailable:")
    if available is None:
        return None
    return min([available * 1024, *_left_in_control_groups(root)])


def _free_on_gpus() -> int | None:
    """The least that is free on any GPU, as NVIDIA's driver says."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            return min(pynvml.nvmlDeviceGetMemoryInfo(gpu).free for gpu in _visible_gpus(pynvml))
        finally:
            pynvml.nvmlShutdown()
    except (pynvml.NVMLError, ValueError):  # no driver, no such GPU; or none at all
        return None


def _visible_gpus(pynvml) -> list:
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    # CUDA counts the fastest GPU first unless CUDA_DEVICE_ORDER says otherwise, and the driver by slots: on a machine
    # with several kinds, a number may be another GPU's here.
    return [
        pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdecimal() else pynvml.nvmlDeviceGetHandleByUUID(name)
        for name in (part.strip() for part in names.split(","))
        if name
    ]


def _left_in_control_groups(root: Path) -> Iterator[int]:
    """Yields what each of the control groups that this process is in, and those around them, still allow, in bytes."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            mount, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            mount = root / "sys/fs/cgroup/memory"
        else:
            continue
        group = PurePosixPath(path)
        for folder in (group, *group.parents):
            left = _left_in(mount / folder.relative_to("/"), *names)
            if left is not None:
                yield left


def _left_in(folder: Path, limit_name: str, used_name: str, reclaimable_name: str) -> int | None:
    """Returns what one control group still allows; None if it sets no limit or its files are not there."""
    try:
        limit, used = (int((folder / name).read_text()) for name in (limit_name, used_name))
    except (OSError, ValueError):  # the limit may be the word "max"
        return None
    # Files that were read and not used again are counted, but give way.
    reclaimable = _numbers_of(folder / "memory.stat").get(reclaimable_name, 0)
    return max(limit - max(used - reclaimable, 0), 0)


def _numbers_of(path: Path) -> dict[str, int]:
    """Reads lines of a name and a number; {} if there is no such file."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}
