"""t2t-lite-report: writes an HTML report on one or several runs."""

from collections.abc import Sequence

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.plugins import load_all


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("report", _run, argv)


def make_parser() -> cli.CommandParser:
    parser = cli.CommandParser(
        "report",
        "Write an HTML report on runs: settings, curves, scores, outputs and checkpoints. The command reads what the "
        "trainer and t2t-lite-eval stored, and never executes code that a run names.",
    )
    parser.add_argument(
        "--output_dir", required=True, type=cli.paths, metavar="RUN[,RUN,...]", help="one or several run directories"
    )
    parser.add_argument("--report_file", required=True, type=cli.path, help="the file to write, such as report.html")
    return parser


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)
    load_all(arguments.t2t_usr_dir)  # a plug-in may register metrics or the hyperparameter set of a run
    print(f"wrote {t2t.write_report(arguments.output_dir, arguments.report_file)}")
