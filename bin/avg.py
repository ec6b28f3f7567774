"""t2t-lite-avg: averages the last checkpoints of a run."""

from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv` (default: those of this process) and returns its exit status."""
    return cli.run("avg", _run, argv)


def make_parser() -> cli.CommandParser:
    """Returns the parser of the command's flags."""
    parser = cli.CommandParser(
        "avg", "Average the last checkpoints of a run; the decoder then uses the average by default.", plugins=False
    )
    parser.add_argument("--output_dir", required=True, type=cli.path, help="the run directory")
    parser.add_argument(
        "--n", type=cli.whole_number(1), help="number of checkpoints (default: average_checkpoints of the run)"
    )
    return parser


def _run(flags: Sequence[str]) -> None:
    _average(make_parser().parse_args(flags))


def _average(arguments) -> None:
    from t2t_lite.quiet import import_tensorflow
    from t2t_lite.run_dir import settings_of

    directory = Path(arguments.output_dir)
    hparams = settings_of(directory)
    import_tensorflow()
    from t2t_lite.checkpoints.averaging import average_checkpoints

    path, steps = average_checkpoints(directory, arguments.n or hparams.average_checkpoints)
    print(f"{path}: average of {len(steps)} checkpoints (steps {', '.join(map(str, steps))}), for inference only")
