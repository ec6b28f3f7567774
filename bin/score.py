"""t2t-lite-score: scores a file of translations or of trees."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv` (default: those of this process) and returns its exit status."""
    return cli.run("score", _run, argv)


def make_parser() -> cli.CommandParser:
    """Returns the parser of the command's flags."""
    parser = cli.CommandParser(
        "score",
        "Score translations with sacreBLEU (13a) and chrF, each with its signature; or trees with EVALB's labelled F1.",
        plugins=False,
    )
    add = parser.add_argument
    add("--hypothesis", required=True, type=cli.path, help="translations or trees, one per line, plain or .gz")
    add("--reference", required=True, type=cli.path, help="references, plain or .gz")
    add(
        "--metric",
        choices=("bleu", "parseval"),
        default="bleu",
        help="bleu (with chrF; default), or parseval for trees",
    )
    add("--lowercase", action="store_true", help="bleu: ignore case")
    add("--per_sentence", action="store_true", help="parseval: also print a line for each sentence, in EVALB's format")
    return parser


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    for flag, metric in (("lowercase", "bleu"), ("per_sentence", "parseval")):
        if getattr(arguments, flag) and arguments.metric != metric:
            parser.error(f"--{flag} needs --metric={metric}")
    _score(arguments)


def _score(arguments: argparse.Namespace) -> None:
    from t2t_lite.data.text_files import read_lines
    from t2t_lite.errors import UserError

    hypotheses, references = (list(read_lines(Path(path))) for path in (arguments.hypothesis, arguments.reference))
    if len(hypotheses) != len(references):
        raise UserError(
            f"{arguments.hypothesis} has {len(hypotheses)} lines but {arguments.reference} has {len(references)}: "
            f"line n of one must correspond to line n of the other"
        )
    if arguments.metric == "parseval":
        from t2t_lite.scoring.parseval import ERROR, report, score_trees

        scored = score_trees(references, hypotheses, arguments.reference)
        if all(score.status == ERROR for score in scored.sentences) and not any("(" in line for line in hypotheses):
            raise UserError(
                f"{arguments.hypothesis} has no tree: --metric=parseval scores trees in brackets, one per line"
            )
        lines = report(scored, arguments.per_sentence)
    else:
        from t2t_lite.scoring.bleu import score_lines

        lines = score_lines(hypotheses, references, arguments.lowercase)
    for line in lines:
        print(line)
