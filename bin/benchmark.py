"""t2t-lite-benchmark: what layers and training cost, measured, estimated as the paper does, and counted."""

import argparse

from t2t_lite.bin import cli
from t2t_lite.training.cost import SUSTAINED_TFLOPS

# Average pieces of a sentence of the paper's data, end symbol included: an assumption, as the paper gives none. It
# matters little: less than one in a hundred of the base model's operations depend on it.
SENTENCE_LENGTH = 28


def main() -> None:
    """Runs the command."""
    parser = cli.Parser("Measure or calculate what training costs. Choose one of the modes.")
    modes = parser.add_mutually_exclusive_group(required=True)
    modes.add_argument(
        "--layers", action="store_true", help="time, memory and path length of the layers of table 1, measured"
    )
    modes.add_argument(
        "--cost",
        action="store_true",
        help="training operations: the paper's estimate (time x devices x rate) beside a count from the settings",
    )
    _add_layers_flags(parser)
    _add_cost_flags(parser)
    cli.run(_benchmark, parser.parse_args())


def _add_layers_flags(parser: cli.Parser) -> None:
    add = parser.add_argument_group("with --layers").add_argument
    add("--neighborhood_size", type=_even, default=64, help="r of local attention (default: 64)")
    add("--max_length", type=cli.whole_number(128), default=8192, help="the longest sequence (default: 8192)")
    add("--plot_file", type=cli.path, help="a PNG file to draw the measurements into")


def _even(text: str) -> int:
    number = cli.whole_number(2)(text)
    if number % 2:
        raise argparse.ArgumentTypeError(f"takes an even number, not '{text}'")
    return number


def _add_cost_flags(parser: cli.Parser) -> None:
    add = parser.add_argument_group("with --cost").add_argument
    add("--hparams_set", help="name of the hparam set (default: transformer_base, then transformer_big)")
    add("--hparams", default="", metavar="NAME=VALUE,...", help="changes to the set")
    add("--train_steps", type=cli.whole_number(1), help="steps in all (default: the set's)")
    add("--step_seconds", type=cli.positive_number, help="time of a step (default: the paper's, where it is known)")
    add(
        "--device",
        type=_device,
        default="P100",
        help=f"{', '.join(SUSTAINED_TFLOPS)}, or a sustained rate in TFLOPS (default: P100)",
    )
    add("--num_devices", type=cli.whole_number(1), default=8, help="devices that work at once (default: 8)")
    add("--vocab_size", type=cli.whole_number(1), default=37_000, help="pieces of the vocabulary (default: 37000)")
    for side in ("source", "target"):
        add(
            f"--{side}_length",
            type=cli.positive_number,
            default=SENTENCE_LENGTH,
            help=f"average pieces of a {side} sentence (default: {SENTENCE_LENGTH}, an assumption)",
        )


def _device(text: str) -> str:
    """A device's name or its rate, which stays a text until it is looked up."""
    if text not in SUSTAINED_TFLOPS:
        try:
            cli.positive_number(text)
        except argparse.ArgumentTypeError:
            known = ", ".join(SUSTAINED_TFLOPS)
            raise argparse.ArgumentTypeError(f"takes {known} or a rate in TFLOPS above 0, not '{text}'") from None
    return text


def _benchmark(arguments) -> None:
    if arguments.layers:
        from t2t_lite.bin.benchmark_layers import print_layers

        print_layers(arguments)
    else:
        from t2t_lite.bin.benchmark_cost import print_cost

        print_cost(arguments)
