"""t2t-lite-score: scores a file of translations."""

from pathlib import Path

from t2t_lite.bin import cli


def main() -> None:
    """Runs the command."""
    parser = cli.Parser("Score translations: sacreBLEU (13a) and chrF, each with its signature.", plugins=False)
    parser.add_argument("--hypothesis", required=True, type=cli.path, help="translations, plain or .gz")
    parser.add_argument("--reference", required=True, type=cli.path, help="references, plain or .gz")
    parser.add_argument("--lowercase", action="store_true", help="compare without case")
    cli.run(_score, parser.parse_args())


def _score(arguments) -> None:
    from t2t_lite.data.text_files import read_lines
    from t2t_lite.errors import UserError
    from t2t_lite.scoring.bleu import score_lines

    hypotheses, references = (list(read_lines(Path(path))) for path in (arguments.hypothesis, arguments.reference))
    if len(hypotheses) != len(references):
        raise UserError(
            f"{arguments.hypothesis} has {len(hypotheses)} lines but {arguments.reference} has {len(references)}: "
            f"line n of one must answer line n of the other"
        )
    for line in score_lines(hypotheses, references, arguments.lowercase):
        print(line)
