"""t2t-lite-report: writes an HTML report on one or several runs."""

from collections.abc import Sequence
from os import PathLike

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.options import option


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("report", _run, argv)


class Flags(cli.Flags):
    output_dir: cli.Paths | None = option(
        None, "one or several run directories", required=True, metavar="RUN[,RUN,...]"
    )
    report_file: PathLike | None = option(None, "the file to write, such as report.html", required=True)


def make_parser() -> cli.CommandParser:
    return cli.CommandParser(
        "report",
        "Write an HTML report on runs: settings, curves, scores, outputs and checkpoints. The command reads what the "
        "trainer and t2t-lite-eval stored, and never executes code that a run names.",
        Flags,
    )


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)
    cli.load_plugins(arguments)  # a plug-in may register metrics or the hyperparameter set of a run
    print(f"wrote {t2t.write_report(arguments.output_dir, arguments.report_file)}")
