"""t2t-lite-score: scores a file of translations or of trees by registered metrics."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli

# The flags that are arguments of metrics.
_OPTIONS = ("lowercase", "per_sentence")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv` (default: those of this process) and returns its exit status."""
    return cli.run("score", _run, argv)


def make_parser() -> cli.CommandParser:
    """Returns the parser of the command's flags."""
    parser = cli.CommandParser(
        "score",
        "Score translations with sacreBLEU (13a) and chrF, each with its signature; or trees with EVALB's labelled F1.",
    )
    add = parser.add_argument
    add("--hypothesis", required=True, type=cli.path, help="translations or trees, one per line, plain or .gz")
    add("--reference", required=True, type=cli.path, help="references, plain or .gz")
    add(
        "--metric",
        default="bleu,chrf",
        metavar="NAME,...",
        help="the metrics: bleu, chrf, ter, exact_match, parseval for trees (default: bleu,chrf)",
    )
    add("--lowercase", action="store_true", help="bleu, chrf, exact_match: ignore case")
    add("--per_sentence", action="store_true", help="parseval: also print a line for each sentence, in EVALB's format")
    return parser


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    from t2t_lite.plugins import load_all
    from t2t_lite.registry import METRICS

    load_all(arguments.t2t_usr_dir)
    metrics = _metrics(arguments.metric)
    options = {flag: True for flag in _OPTIONS if getattr(arguments, flag)}
    for option in options:
        taking = [name for name in METRICS if option in _options_of(name)]
        if not set(taking) & set(metrics):
            parser.error(f"--{option} needs --metric={' or '.join(taking)}")
    _score(arguments, metrics, options)


def _options_of(metric: str) -> tuple[str, ...]:
    from t2t_lite.registry import METRICS

    return METRICS.fact(metric, "options", ())


def _metrics(names: str) -> list[str]:
    """Returns the metrics that --metric names."""
    from t2t_lite.errors import UserError
    from t2t_lite.scoring.metric import TOKENS, metric_named, needs_of

    metrics = [metric_named(name, "metric") for name in dict.fromkeys(names.split(","))]
    for name in metrics:
        if needs_of(name) == TOKENS:
            raise UserError(f"`metric={name}` needs the model; t2t-lite-trainer --schedule=eval computes it", status=2)
    return metrics


def _score(arguments: argparse.Namespace, metrics: list[str], options: dict[str, bool]) -> None:
    from t2t_lite.data.text_files import read_lines
    from t2t_lite.errors import UserError
    from t2t_lite.scoring.metric import check_lines, report

    hypotheses, references = (list(read_lines(Path(path))) for path in (arguments.hypothesis, arguments.reference))
    if len(hypotheses) != len(references):
        raise UserError(
            f"{arguments.hypothesis} has {len(hypotheses)} lines but {arguments.reference} has {len(references)}: "
            f"line n of one must correspond to line n of the other"
        )
    check_lines(hypotheses, references)
    lines = []
    for name in metrics:
        taken = {option: value for option, value in options.items() if option in _options_of(name)}
        lines += report(name, hypotheses, references, names=(arguments.hypothesis, arguments.reference), **taken)
    for line in lines:
        print(line)
