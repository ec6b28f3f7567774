"""Finds the faster precision on a device by timing a matrix product, for precision=auto."""

import os
from pathlib import Path

import tensorflow as tf

from t2t_lite.config import AUTO_PRECISION
from t2t_lite.errors import UserError
from t2t_lite.training.monitoring.peak_flops import matmul_gflops
from t2t_lite.training.strategy import all_gather

FLOAT32, BFLOAT16 = "float32", "mixed_bfloat16"
# The minimum speed-up of matrix products for which mixed precision pays off. Casts and other operations reduce its gain
# (docs/results.md): a step of transformer_multi30k was 1.5 times as fast with products that were 1.9 times as fast, but
# 0.73 times as fast with products that were equally fast.
_LEAST_GAIN = 1.3
# The sizes of the square matrices. A product must take much longer than its launch, but on a CPU without bfloat16
# instructions, a larger one would take a second.
_SIZES = {"CPU": 1024, "GPU": 8192}
_measured: dict[str, float] = {}


def choose_precision(strategy: tf.distribute.Strategy, stored: str | None) -> tuple[str, str]:
    """Returns the precision that precision=auto selects, and a line that gives the reason.

    All workers must call it together; the first one chooses. `stored` is the precision that the run began with and
    keeps on any device, so that resuming is exact; None: a new run.
    """
    if stored:
        choice, why = stored, "as at the start of the run"
    elif isinstance(strategy, tf.distribute.TPUStrategy):
        choice, why = BFLOAT16, "in which TPUs multiply"
    else:
        choice = BFLOAT16 if product_gflops(BFLOAT16) > _LEAST_GAIN * product_gflops(FLOAT32) else FLOAT32
        why = f"because matrix products run at {_figures(BFLOAT16)} here"
    if all_gather(strategy, float(choice == BFLOAT16))[0] != (choice == BFLOAT16):
        choice, why = FLOAT32 if choice == BFLOAT16 else BFLOAT16, "as chosen by the first worker"
    return choice, f"`hparams=precision={AUTO_PRECISION}`: {choice}, {why}"


def slow_precision(precision: str) -> str:
    """Returns a warning if a 16-bit precision does not pay off on this device, else ""."""
    if precision == FLOAT32 or tf.config.list_logical_devices("TPU"):
        return ""
    if _is_bfloat16_refused() and precision == BFLOAT16:
        raise UserError(
            f"`hparams=precision={BFLOAT16}`: oneDNN does not compute in bfloat16 with ONEDNN_MAX_CPU_ISA="
            f"{os.environ['ONEDNN_MAX_CPU_ISA']}; unset that variable, or set TF_ENABLE_ONEDNN_OPTS=0"
        )
    if product_gflops(precision) > _LEAST_GAIN * product_gflops(FLOAT32):
        return ""
    return (
        f"precision={precision} does not pay off here: matrix products run at {_figures(precision)}; use "
        f"precision={FLOAT32}, or start a new run with precision={AUTO_PRECISION}, which chooses the faster one"
    )


def product_gflops(precision: str) -> float:
    """Returns the speed of a matrix product on the first device, in GFLOP/s; 0 if the device cannot compute it.

    Measures each precision once per process. Call it after creating the strategy, because it initializes the devices.
    """
    if precision not in _measured:
        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        is_refused = precision == BFLOAT16 and _is_bfloat16_refused()
        speed = 0.0 if is_refused else matmul_gflops(_SIZES[kind], precision.removeprefix("mixed_"), repeats=8)
        _measured[precision] = round(speed, 1)
    return _measured[precision]


def measured_gflops() -> dict[str, float]:
    return dict(_measured)


def _figures(precision: str) -> str:
    name = precision.removeprefix("mixed_")
    return f"{product_gflops(FLOAT32):,.0f} GFLOP/s in float32 and {product_gflops(precision):,.0f} in {name}"


def _is_bfloat16_refused() -> bool:
    """Returns whether a bfloat16 product would crash the process.

    If the processor has AVX512, TensorFlow uses oneDNN for the product, and oneDNN fails if ONEDNN_MAX_CPU_ISA forbids
    AVX512.
    """
    allowed = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if (
        not allowed
        or allowed.startswith(("AVX512", "AVX10", "DEFAULT"))
        or os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0"
    ):
        return False
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
