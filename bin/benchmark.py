"""t2t-lite-benchmark: what layers, training and decoding cost, measured, estimated as the paper does, and counted."""

from collections.abc import Sequence

from t2t_lite.bin import cli
from t2t_lite.bin.benchmark_flags import SIZES, make_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv`, or those of this process; returns the exit status, see `cli.run`."""
    return cli.run("benchmark", _run, argv, one_heap=True)


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    if arguments.training:
        _check_training(parser, arguments)
    if arguments.decoding and not (arguments.output_dir and arguments.decode_from_file):
        parser.error("--decoding needs --output_dir and --decode_from_file")
    if arguments.curve and not arguments.output_dir:
        parser.error("--curve needs --output_dir")
    for name, default in SIZES.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, default)
    _benchmark(arguments)


def _check_training(parser: cli.Parser, arguments) -> None:
    """Ends the command if flags of --training do not go together."""
    if not arguments.hparams_set:
        parser.error("--training needs --hparams_set")
    if bool(arguments.problem) != bool(arguments.data_dir):
        given, missing = ("problem", "data_dir") if arguments.problem else ("data_dir", "problem")
        parser.error(f"--{given} needs --{missing}: together they say which data to train on")
    for name in SIZES:
        size = getattr(arguments, name)
        if size is not None and arguments.problem:
            parser.error(f"--{name} is that of random ids; --problem={arguments.problem} brings its own")
        if size is not None and size != int(size):
            parser.error(f"--{name} takes a whole number with --training, not '{size:g}'")


def _benchmark(arguments) -> None:
    if arguments.layers:
        from t2t_lite.bin.benchmark_layers import print_layers

        print_layers(arguments)
    elif arguments.curve:
        from t2t_lite.bin.benchmark_curve import print_curve

        print_curve(arguments)
    elif arguments.decoding:
        from t2t_lite.bin.benchmark_decoding import print_decoding

        print_decoding(arguments)
    elif arguments.training:
        from t2t_lite.bin.benchmark_training import print_training

        print_training(arguments)
    else:
        from t2t_lite.bin.benchmark_cost import print_cost

        print_cost(arguments)
