"""t2t-lite-datagen: generates the vocabulary, shards and manifest of a problem, or shows their contents."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.bin.cli.display import CommandDisplay
from t2t_lite.bin.cli.option_flags import add_options, given, parse_with_problem
from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("datagen", _run, argv)


def make_parser() -> cli.CommandParser:
    parser = cli.CommandParser("datagen", "Generate the data of a problem: vocabulary, TFRecord shards, manifest.")
    add = parser.add_argument
    add("--problem", help="name of the problem")
    add("--data_dir", type=cli.path, help="folder to write the data to")
    add(
        "--tmp_dir",
        type=cli.path,
        help="folder for source files, which are downloaded if missing (default: downloads/ in --data_dir)",
    )
    add(
        "--from",
        dest="kind",
        choices=("t2t",),
        help="t2t: use the shards and the vocabulary that tensor2tensor generated in --tmp_dir, unchanged",
    )
    add(
        "--t2t_problem",
        metavar="NAME",
        help="with --from=t2t: the NAME in NAME-train-00000-of-00100 (default: --problem, or the only one)",
    )
    add_options(add, GenerateOptions, *GenerateOptions.declared())
    add(
        "--inspect",
        nargs="?",
        const="train",
        metavar="SPLIT|SHARD",
        help="show the content of a split, or of one shard given by its path, and exit",
    )
    add("--plot_file", type=cli.path, help="with --inspect: plot lengths and padding to this file (.png, .svg or .pdf)")
    return parser


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parse_with_problem(parser, flags)
    if arguments.plot_file is not None and not arguments.inspect:
        parser.error("--plot_file needs --inspect")
    if arguments.inspect and "-of-" in arguments.inspect and not Path(arguments.inspect).exists():
        raise UserError(f"--inspect={arguments.inspect}: there is no such shard; check the path")
    if not arguments.inspect or not Path(arguments.inspect).is_file():
        for flag in ("problem", "data_dir"):
            if not getattr(arguments, flag):
                parser.error(f"--{flag} is required")
    if arguments.inspect:
        from t2t_lite.bin.datagen.inspection import print_inspection

        print_inspection(arguments)
        return
    options = given(arguments, GenerateOptions) | arguments.problem_options
    if arguments.kind or arguments.t2t_problem:
        _import(parser, arguments, options)
        return
    t2t.generate_data(
        arguments.problem, arguments.data_dir, tmp_dir=arguments.tmp_dir, display=CommandDisplay(), **options
    )


def _import(parser: cli.CommandParser, arguments: argparse.Namespace, options: Mapping[str, object]) -> None:
    if not arguments.kind or not arguments.tmp_dir:
        parser.error("--from=t2t needs --tmp_dir" if arguments.kind else "--t2t_problem needs --from=t2t")
    if others := {name for name, value in options.items() if value} - {"vocab_file"}:
        parser.error(f"--from=t2t uses the shards unchanged; remove --{min(others)}")
    t2t.import_data(
        arguments.tmp_dir,
        arguments.data_dir,
        problem=arguments.problem,
        vocab_file=arguments.vocab_file,
        t2t_problem=arguments.t2t_problem or "",
        display=CommandDisplay(),
    )
