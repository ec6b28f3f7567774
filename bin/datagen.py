"""t2t-lite-datagen: makes the vocabulary, the shards and the manifest of a problem."""

from pathlib import Path

from t2t_lite.bin import cli


def main() -> None:
    """Runs the command."""
    parser = cli.Parser("Generate the data of a problem: vocabulary, TFRecord shards, manifest.")
    parser.add_argument("--problem", required=True, help="name of the problem")
    parser.add_argument("--data_dir", required=True, type=cli.path, help="where to write the data")
    parser.add_argument(
        "--tmp_dir",
        type=cli.path,
        help="where source files are, or are fetched to (default: downloads/ in --data_dir)",
    )
    cli.run(_datagen, parser.parse_args())


def _datagen(arguments) -> None:
    from t2t_lite.data.problem import get_problem
    from t2t_lite.plugins import load_builtins

    load_builtins()
    generate_data(get_problem(arguments.problem), arguments.data_dir, arguments.tmp_dir)


def generate_data(problem, data_dir: str, tmp_dir: str | None) -> None:
    """Generates a problem's data and says so; the trainer's --generate_data does the same."""
    from t2t_lite.quiet import import_tensorflow

    import_tensorflow()
    from t2t_lite.data.generate import generate

    generate(problem, Path(data_dir), Path(tmp_dir) if tmp_dir else Path(data_dir) / "downloads")
