"""The flags of commands that train: on which devices, and how."""

from t2t_lite.bin import cli
from t2t_lite.training.options import STRATEGIES


def add_device_flags(add) -> None:
    """Adds the flags with the `add_argument` of a parser or group."""
    add("--strategy", choices=STRATEGIES, default="auto", help="which devices (default: all there are)")
    add("--num_gpus", type=cli.whole_number(1), help="use so many of a machine's GPUs (default: all)")
    add(
        "--virtual_devices",
        type=cli.whole_number(0),
        default=0,
        help="split the CPU into this many devices and train on all",
    )
    add(
        "--max_tokens_per_replica",
        type=cli.whole_number(1),
        help="positions, padding included, that a device holds at once; more are accumulated (default: by free memory)",
    )
    add("--xla_compile", action="store_true", help="compile loss and gradients, once for each of few shapes")
    add("--peak_tflops", type=cli.positive_number, help="of a device, for the utilisation (default: measured)")
