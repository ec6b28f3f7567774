"""t2t-lite-score: scores a file of translations or of trees."""

from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv`, or those of this process; returns the exit status, see `cli.run`."""
    return cli.run("score", _run, argv)


def make_parser() -> cli.CommandParser:
    """Returns the parser of the command's flags."""
    parser = cli.CommandParser(
        "score",
        "Score translations: sacreBLEU (13a) and chrF, each with its signature. Or trees: labelled F1 as EVALB has it.",
        plugins=False,
    )
    add = parser.add_argument
    add("--hypothesis", required=True, type=cli.path, help="translations or trees, one a line, plain or .gz")
    add("--reference", required=True, type=cli.path, help="references, plain or .gz")
    add(
        "--metric", choices=("bleu", "parseval"), default="bleu", help="bleu (and chrF; default), or parseval: of trees"
    )
    add("--lowercase", action="store_true", help="bleu: compare without case")
    add("--per_sentence", action="store_true", help="parseval: also a line for each sentence, in EVALB's columns")
    return parser


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    for flag, metric in (("lowercase", "bleu"), ("per_sentence", "parseval")):
        if getattr(arguments, flag) and arguments.metric != metric:
            parser.error(f"--{flag} goes with --metric={metric}")
    _score(arguments)


def _score(arguments) -> None:
    from t2t_lite.data.text_files import read_lines
    from t2t_lite.errors import UserError

    hypotheses, references = (list(read_lines(Path(path))) for path in (arguments.hypothesis, arguments.reference))
    if len(hypotheses) != len(references):
        raise UserError(
            f"{arguments.hypothesis} has {len(hypotheses)} lines but {arguments.reference} has {len(references)}: "
            f"line n of one must answer line n of the other"
        )
    if arguments.metric == "parseval":
        from t2t_lite.scoring.parseval import ERROR, report, score_trees

        scored = score_trees(references, hypotheses, arguments.reference)
        if all(score.status == ERROR for score in scored.sentences) and not any("(" in line for line in hypotheses):
            raise UserError(
                f"{arguments.hypothesis} has no tree: --metric=parseval scores trees in brackets, one a line"
            )
        lines = report(scored, arguments.per_sentence)
    else:
        from t2t_lite.scoring.bleu import score_lines

        lines = score_lines(hypotheses, references, arguments.lowercase)
    for line in lines:
        print(line)
