"""t2t-lite-score: scores a file of translations."""

from pathlib import Path

from t2t_lite.bin import cli


def main() -> None:
    """Runs the command."""
    parser = cli.Parser("Score translations: sacreBLEU (13a) and chrF, each with its signature.")
    parser.add_argument("--hypothesis", required=True, type=cli.directory, help="translations, plain or .gz")
    parser.add_argument("--reference", required=True, type=cli.directory, help="references, plain or .gz")
    parser.add_argument("--lowercase", action="store_true", help="compare without case")
    cli.run(_score, parser.parse_args())


def _score(arguments) -> None:
    from t2t_lite.data.problem import read_lines
    from t2t_lite.scoring.bleu import score_lines

    hypotheses, references = (list(read_lines(Path(path))) for path in (arguments.hypothesis, arguments.reference))
    for line in score_lines(hypotheses, references, arguments.lowercase):
        print(line)
