"""t2t-lite-avg: averages checkpoints of a run."""

from collections.abc import Sequence

from t2t_lite.bin import cli
from t2t_lite.plugins import load_all
from t2t_lite.runs.selection import average_checkpoints


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("avg", _run, argv)


def make_parser() -> cli.CommandParser:
    parser = cli.CommandParser(
        "avg", "Average checkpoints of a run, by default the last ones. The decoder then uses the average by default."
    )
    parser.add_argument("--output_dir", required=True, type=cli.path, help="the run directory")
    which = parser.add_mutually_exclusive_group().add_argument
    which("--n", type=cli.whole_number(1), help="average the last N (default: average_checkpoints of the run)")
    which("--steps", metavar="A-B", help="average all checkpoints from step A to step B instead")
    which(
        "--best",
        metavar="N[:METRIC]",
        help="average the N best checkpoints by the run's --eval_metric or by METRIC instead (such as 3 or 3:chrf)",
    )
    parser.add_argument(
        "--checkpoint_path",
        type=cli.path,
        help="the last of the --n checkpoints: best, ckpt-2000 or a path (default: the last one of the run)",
    )
    return parser


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)
    load_all(arguments.t2t_usr_dir)  # a plug-in may register the metric in --best
    path, steps = average_checkpoints(
        arguments.output_dir,
        arguments.n,
        steps=arguments.steps,
        best=arguments.best,
        checkpoint_path=arguments.checkpoint_path,
    )
    print(f"{path}: average of {len(steps)} checkpoints (steps {', '.join(map(str, steps))}), for inference only")
