"""The device flags of commands that train."""

import argparse
from collections.abc import Callable

from t2t_lite.bin import cli
from t2t_lite.training.options import STRATEGIES


def add_device_flags(add: Callable[..., argparse.Action]) -> None:
    """Adds the flags; `add` is the `add_argument` of a parser or group."""
    add("--strategy", choices=STRATEGIES, default="auto", help="the devices to use (default: all)")
    add("--num_gpus", type=cli.whole_number(1), help="number of the machine's GPUs to use (default: all)")
    add(
        "--virtual_devices",
        type=cli.whole_number(0),
        default=0,
        help="split the CPU into this many virtual devices and train on all of them",
    )
    add(
        "--max_tokens_per_replica",
        type=cli.whole_number(1),
        help="maximum positions per micro-batch, padding included; larger batches use gradient accumulation (default: "
        "by free memory)",
    )
    add("--xla_compile", action="store_true", help="compile loss and gradients with XLA, once for each of a few shapes")
    add("--peak_tflops", type=cli.positive_number, help="peak rate of a device, for utilisation (default: measured)")
