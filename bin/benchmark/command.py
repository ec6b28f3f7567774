"""t2t-lite-benchmark: measures, counts and estimates (as the paper does) the cost of layers, training and decoding."""

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.bin.cli.option_flags import DEVICES, add_options
from t2t_lite.config import PRECISIONS
from t2t_lite.cost import RATES, find_rate
from t2t_lite.training.options import TrainOptions
from t2t_lite.visualization.figures import check_plot_file

# Default data sizes. The paper does not report average sentence lengths, so these (in tokens, including the end symbol)
# are assumed. They matter little: less than 1% of the base model's operations depend on them.
SIZES = {"vocab_size": 37_000, "source_length": 28, "target_length": 28}
# Each mode is implemented by the module of the same name, in its function `show`.
_MODES = {
    "layers": "measure time, memory and path length of the layers of table 1",
    "cost": "compute training operations: the paper's estimate (time x devices x rate), and a count for the model",
    "training": "measure the speed, memory and utilisation of training an hparam set on this machine",
    "decoding": "measure the speed of translating a file with a trained model",
    "curve": "show the evaluations of runs, and plot them with the training loss; uses --output_dir and --plot_file",
}


def make_parser() -> cli.CommandParser:
    parser = cli.CommandParser(
        "benchmark", "Measure or calculate the cost of training and decoding. Choose one of the modes.", runs=True
    )
    modes = parser.add_mutually_exclusive_group(required=True)
    for mode, what in _MODES.items():
        modes.add_argument(f"--{mode}", action="store_true", help=what)
    _add_decoding_flags(parser)
    _add_layers_flags(parser)
    _add_model_flags(parser)
    _add_cost_flags(parser)
    _add_training_flags(parser)
    parser.removed(
        *("--serving", "--url", "--clients", "--lines", "--seconds", "--api_key"),
        instead="measure a server with a load generator such as oha or wrk, see How fast in docs/serving.md",
    )
    return parser


def _add_decoding_flags(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("with --decoding").add_argument
    add("--output_dir", type=cli.path, help="the run directory of the model (with --curve also several: RUN,RUN)")
    add("--decode_from_file", type=cli.path, help="the text to translate, plain or .gz")
    add("--decode_hparams", default="", metavar="NAME=VALUE,...", help="overrides of the problem's defaults")
    add(
        "--engine",
        type=_engines,
        metavar="NAME,...",
        help="tensorflow, uncompiled (the same without XLA), ctranslate2, ctranslate2_int8 (default: all)",
    )
    add(
        "--whole_command",
        type=cli.truth,
        default=True,
        help="also time complete t2t-lite-decoder commands, cold and warm (default: True)",
    )
    add("--reference", type=cli.path, help="reference translations, to score each engine's outputs with BLEU")
    add("--one_by_one", type=cli.whole_number(0), default=200, help="lines to translate one by one (default: 200)")
    add("--repeats", type=cli.whole_number(1), default=3, help="timed runs after a warm-up run (default: 3)")


def _add_layers_flags(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("with --layers").add_argument
    add("--neighborhood_size", type=_even, default=64, help="neighbourhood size r of local attention (default: 64)")
    add("--max_length", type=cli.whole_number(128), default=8192, help="the longest sequence (default: 8192)")
    add("--plot_file", type=cli.path, help="a .png, .svg or .pdf file for a plot (also with --curve)")


def _engines(text: str) -> list[str]:
    from t2t_lite.benchmark.engines import ENGINES

    names = text.split(",")
    for name in names:
        if name not in ENGINES:
            raise argparse.ArgumentTypeError(f"takes names from {', '.join(ENGINES)}, not '{name}'")
    return names


def _even(text: str) -> int:
    number = cli.whole_number(2)(text)
    if number % 2:
        raise argparse.ArgumentTypeError(f"takes an even number, not '{text}'")
    return number


def _add_model_flags(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("with --cost and --training").add_argument
    add("--hparams_set", help="name of the hparam set (default with --cost: transformer_base and transformer_big)")
    add("--hparams", default="", metavar="NAME=VALUE,...", help="overrides of the set's values")
    size = SIZES["vocab_size"]
    add("--vocab_size", type=cli.whole_number(2), help=f"number of tokens in the vocabulary (default: {size})")
    for side in ("source", "target"):
        length = SIZES[f"{side}_length"]
        add(
            f"--{side}_length",
            type=cli.positive_number,
            help=f"average number of tokens in a {side} sentence (default: {length}, an assumption)",
        )


def _add_cost_flags(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("with --cost").add_argument
    add("--train_steps", type=cli.whole_number(1), help="total number of steps (default: the set's)")
    add("--step_seconds", type=cli.positive_number, help="seconds per step (default: the paper's, if known)")
    add(
        "--device",
        type=_device,
        default="P100",
        help=f"{', '.join(RATES)}, or the rate of another device in TFLOPS (default: P100)",
    )
    add("--num_devices", type=cli.whole_number(1), default=8, help="number of devices (default: 8)")


def _device(text: str) -> str:
    if find_rate(text) is None:
        try:
            cli.positive_number(text)
        except argparse.ArgumentTypeError:
            known = ", ".join(RATES)
            raise argparse.ArgumentTypeError(f"takes {known} or a rate in TFLOPS above 0, not '{text}'") from None
    return text


def _add_training_flags(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("with --training").add_argument
    add("--precision", type=_precisions, metavar="WORD,...", help="precisions to measure (default: the set's)")
    add("--problem", help="train on this problem's data (default: random ids, without padding)")
    add("--data_dir", type=cli.path, help="folder with the problem's data")
    add("--num_steps", type=cli.whole_number(1), default=10, help="timed steps (default: 10)")
    add("--warmup_steps", type=cli.whole_number(0), default=3, help="untimed steps before them (default: 3)")
    add_options(add, TrainOptions, *DEVICES)
    add("--json_file", type=cli.path, help="write all results to this JSON file")


def _precisions(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in PRECISIONS:
            raise argparse.ArgumentTypeError(f"takes values from {', '.join(PRECISIONS)}, not '{word}'")
    return words


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("benchmark", _run, argv, exit_at_once=True)


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    if arguments.training:
        _check_training(parser, arguments)
    if arguments.decoding and not (arguments.output_dir and arguments.decode_from_file):
        parser.error("--decoding needs --output_dir and --decode_from_file")
    if arguments.reference and not arguments.whole_command:
        parser.error("--reference scores the outputs of whole commands; remove --whole_command=False")
    if arguments.curve and not arguments.output_dir:
        parser.error("--curve needs --output_dir")
    for name, default in SIZES.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, default)
    if arguments.layers and arguments.plot_file is not None:
        check_plot_file(Path(arguments.plot_file))  # before measuring, which takes minutes
    mode = next(mode for mode in _MODES if getattr(arguments, mode))
    importlib.import_module(f"t2t_lite.bin.benchmark.{mode}").show(arguments)


def _check_training(parser: cli.CommandParser, arguments: argparse.Namespace) -> None:
    if not arguments.hparams_set:
        parser.error("--training needs --hparams_set")
    if bool(arguments.problem) != bool(arguments.data_dir):
        given, missing = ("problem", "data_dir") if arguments.problem else ("data_dir", "problem")
        parser.error(f"--{given} needs --{missing}")
    for name in SIZES:
        size = getattr(arguments, name)
        if size is not None and arguments.problem:
            parser.error(f"--{name} applies to random ids and cannot be combined with --problem={arguments.problem}")
        if size is not None and size != int(size):
            parser.error(f"--{name} takes a whole number with --training, not '{size:g}'")
