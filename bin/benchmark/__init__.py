"""t2t-lite-benchmark: measures, counts and estimates (as the paper does) the cost of layers, training and decoding."""

import argparse
import importlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.config import PRECISIONS
from t2t_lite.cost import RATES, find_rate
from t2t_lite.options import option
from t2t_lite.training.options import TrainOptions
from t2t_lite.visualization.figures import check_plot_file

# Default data sizes. The paper does not report average sentence lengths, so these (in tokens, including the end symbol)
# are assumed. They matter little: less than 1% of the base model's operations depend on them.
SIZES = {"vocab_size": 37_000, "source_length": 28, "target_length": 28}
_MODES = ("layers", "cost", "training", "decoding", "curve")


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


def _device(text: str) -> str:
    if find_rate(text) is None:
        try:
            cli.positive_number(text)
        except argparse.ArgumentTypeError:
            known = ", ".join(RATES)
            raise argparse.ArgumentTypeError(f"takes {known} or a rate in TFLOPS above 0, not '{text}'") from None
    return text


def _precisions(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in PRECISIONS:
            raise argparse.ArgumentTypeError(f"takes values from {', '.join(PRECISIONS)}, not '{word}'")
    return words


class Flags(cli.RunFlags):
    # Each mode is implemented by the module of the same name, in its function `show`.
    layers: bool = option(
        False, "measure time, memory and path length of the layers of table 1", required=True, one_of=True
    )
    cost: bool = option(
        False,
        "compute training operations: the paper's estimate (time x devices x rate), and a count for the model",
        one_of=True,
    )
    training: bool = option(
        False, "measure the speed, memory and utilisation of training an hparam set on this machine", one_of=True
    )
    decoding: bool = option(False, "measure the speed of translating a file with a trained model", one_of=True)
    curve: bool = option(
        False,
        "show the evaluations of runs, and plot them with the training loss; uses --output_dir and --plot_file",
        one_of=True,
    )
    output_dir: PathLike | None = option(
        None, "the run directory of the model (with --curve also several: RUN,RUN)", group="with --decoding"
    )
    decode_from_file: PathLike | None = option(None, "the text to translate, plain or .gz")
    decode_hparams: str = option("", "overrides of the problem's defaults", metavar="NAME=VALUE,...")
    engine: Sequence[str] | None = option(
        None,
        "tensorflow, uncompiled (the same without XLA), ctranslate2, ctranslate2_int8",
        unset="all",
        metavar="NAME,...",
        parse=_engines,
    )
    whole_command: bool = option(True, "also time complete t2t-lite-decoder commands, cold and warm", parse=cli.truth)
    reference: PathLike | None = option(None, "reference translations, to score each engine's outputs with BLEU")
    one_by_one: int = option(200, "lines to translate one by one", at_least=0)
    repeats: int = option(3, "timed runs after a warm-up run", at_least=1)
    neighborhood_size: int = option(64, "neighbourhood size r of local attention", group="with --layers", parse=_even)
    max_length: int = option(8192, "the longest sequence", at_least=128)
    plot_file: PathLike | None = option(None, "a .png, .svg or .pdf file for a plot (also with --curve)")
    hparams_set: str | None = option(
        None,
        "name of the hparam set (default with --cost: transformer_base and transformer_big)",
        group="with --cost and --training",
    )
    hparams: str = option("", "overrides of the set's values", metavar="NAME=VALUE,...")
    vocab_size: int | None = option(
        None, "number of tokens in the vocabulary", unset=f"{SIZES['vocab_size']}", at_least=2
    )
    source_length: float | None = option(
        None, "average number of tokens in a source sentence", unset=f"{SIZES['source_length']}, an assumption", above=0
    )
    target_length: float | None = option(
        None, "average number of tokens in a target sentence", unset=f"{SIZES['target_length']}, an assumption", above=0
    )
    train_steps: int | None = option(None, "total number of steps", unset="the set's", group="with --cost", at_least=1)
    step_seconds: float | None = option(None, "seconds per step", unset="the paper's, if known", above=0)
    device: str = option("P100", f"{', '.join(RATES)}, or the rate of another device in TFLOPS", parse=_device)
    num_devices: int = option(8, "number of devices", at_least=1)
    precision: Sequence[str] | None = option(
        None, "precisions to measure", unset="the set's", group="with --training", metavar="WORD,...", parse=_precisions
    )
    problem: str | None = option(None, "train on this problem's data", unset="random ids, without padding")
    data_dir: PathLike | None = option(None, "folder with the problem's data")
    num_steps: int = option(10, "timed steps", at_least=1)
    warmup_steps: int = option(3, "untimed steps before them", at_least=0)
    strategy: str = TrainOptions.field("strategy")
    worker_timeout: int = TrainOptions.field("worker_timeout")
    num_gpus: int | None = TrainOptions.field("num_gpus")
    virtual_devices: int = TrainOptions.field("virtual_devices")
    max_tokens_per_replica: int | None = TrainOptions.field("max_tokens_per_replica")
    xla_compile: bool | None = TrainOptions.field("xla_compile")
    peak_tflops: float | None = TrainOptions.field("peak_tflops")
    json_file: PathLike | None = option(None, "write all results to this JSON file")


def make_parser() -> cli.CommandParser:
    instead = "measure a server with a load generator such as oha or wrk, see How fast in docs/serving.md"
    return cli.CommandParser(
        "benchmark",
        "Measure or calculate the cost of training and decoding. Choose one of the modes.",
        Flags,
        dict.fromkeys(("--serving", "--url", "--clients", "--lines", "--seconds", "--api_key"), instead),
    )


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
