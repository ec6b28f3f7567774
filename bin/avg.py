"""t2t-lite-avg: averages the last checkpoints of a run."""

from collections.abc import Sequence

from t2t_lite.api.checkpoints import average_checkpoints
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
    arguments = make_parser().parse_args(flags)
    path, steps = average_checkpoints(arguments.output_dir, arguments.n)
    print(f"{path}: average of {len(steps)} checkpoints (steps {', '.join(map(str, steps))}), for inference only")
