"""t2t-lite-datagen: makes the vocabulary, the shards and the manifest of a problem, or shows what is in them."""

from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.bin.cli.problem_flags import parse_with_problem
from t2t_lite.errors import UserError

# Flags that change the problem's own settings.
_SETTINGS = ("num_shards", "vocab_kind", "vocab_size", "vocab_file")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv`, or those of this process; returns the exit status, see `cli.run`."""
    return cli.run("datagen", _run, argv, one_heap=True)


def make_parser() -> cli.CommandParser:
    """Returns the parser of the command's flags, without those that a problem brings."""
    parser = cli.CommandParser("datagen", "Generate the data of a problem: vocabulary, TFRecord shards, manifest.")
    add = parser.add_argument
    add("--problem", help="name of the problem")
    add("--data_dir", type=cli.path, help="where to write the data")
    add(
        "--tmp_dir", type=cli.path, help="where source files are, or are fetched to (default: downloads/ in --data_dir)"
    )
    add("--num_workers", type=cli.whole_number(0), default=0, help="parallel workers (default: 0, one for each core)")
    add("--max_cases", type=cli.whole_number(0), default=0, help="so many pairs of train at most (default: 0, all)")
    add("--num_shards", type=cli.whole_number(1), help="files of the train split (default: the problem's)")
    add(
        "--vocab_kind",
        choices=("bpe", "wordpiece", "characters", "bytes", "words"),
        help="tokens (default: the problem's)",
    )
    add("--vocab_size", type=cli.whole_number(1), help="number of tokens (default: the problem's)")
    add(
        "--vocab_file",
        type=cli.path,
        help="take this vocabulary: ours, a SentencePiece model, a list of WordPiece tokens",
    )
    add("--runner", default="", help="generate on Apache Beam: direct, or a runner that Beam knows (extra `beam`)")
    add("--beam_options", default="", metavar="FLAGS", help="flags for the Beam pipeline")
    add(
        "--inspect",
        nargs="?",
        const="train",
        metavar="SPLIT|SHARD",
        help="show what is in a split, or in one shard by its path, and end",
    )
    return parser


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parse_with_problem(parser, flags)
    if arguments.inspect and "-of-" in arguments.inspect and not Path(arguments.inspect).exists():
        raise UserError(f"--inspect={arguments.inspect}: no such shard")
    if not arguments.inspect or not Path(arguments.inspect).is_file():
        for flag in ("problem", "data_dir"):
            if not getattr(arguments, flag):
                parser.error(f"--{flag} is required")
    _datagen(arguments)


def _datagen(arguments) -> None:
    if arguments.inspect:
        from t2t_lite.bin.datagen.inspection import print_inspection

        print_inspection(arguments)
        return
    from t2t_lite.data.problem import get_problem

    problem = get_problem(arguments.problem, **arguments.problem_options)
    for name in _SETTINGS:
        if (value := getattr(arguments, name)) is not None:
            setattr(problem, name, value)
    names = ("num_workers", "max_cases", "runner", "beam_options")
    generate_data(problem, arguments.data_dir, arguments.tmp_dir, **{name: getattr(arguments, name) for name in names})


def generate_data(problem, data_dir: str, tmp_dir: str | None, **options) -> None:
    """Generates a problem's data and says so; the trainer's --generate_data does the same."""
    from t2t_lite.data.generation.sources import check_obtainable
    from t2t_lite.data.manifest import read_manifest
    from t2t_lite.quiet import import_tensorflow

    tmp_dir = Path(tmp_dir) if tmp_dir else Path(data_dir) / "downloads"
    problem.keep_streams(tmp_dir)
    if read_manifest(Path(data_dir), problem) is None:
        check_obtainable(problem, tmp_dir)  # before TensorFlow is imported, which takes seconds
    import_tensorflow()
    from t2t_lite.bin.datagen.text_report import print_report
    from t2t_lite.data.generation.generate import GenerateOptions, generate

    def say(line):
        print(line, flush=True)

    generate(problem, Path(data_dir), tmp_dir, say, GenerateOptions(**options, report=print_report))
