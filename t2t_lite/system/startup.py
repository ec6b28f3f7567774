"""Process settings that must precede the import of TensorFlow."""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path


def keep_compiled() -> None:
    """Makes XLA cache compiled code for later runs. Call this before importing TensorFlow.

    The cache is in $XDG_CACHE_HOME/t2t-lite, in a folder for this TensorFlow version and these kinds of processor and
    GPUs, because code that was compiled for others may not run. If the user has configured an XLA cache, it is kept.
    """
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
