"""t2t-lite-datagen: generates the vocabulary, shards and manifest of a problem, or shows their contents."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.bin.cli.display import CommandDisplay
from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.errors import UserError
from t2t_lite.options import option


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("datagen", _run, argv)


class Flags(cli.Flags):
    problem: str | None = option(None, "name of the problem")
    data_dir: PathLike | None = option(None, "folder to write the data to")
    tmp_dir: PathLike | None = option(
        None, "folder for source files, which are downloaded if missing", unset="downloads/ in --data_dir"
    )
    kind: str | None = option(
        None,
        "t2t: use the shards and the vocabulary that tensor2tensor generated in --tmp_dir, unchanged",
        flag="from",
        choices=("t2t",),
        parse=str,
    )
    t2t_problem: str | None = option(
        None,
        "with --from=t2t: the NAME in NAME-train-00000-of-00100",
        unset="--problem, or the only one",
        metavar="NAME",
    )
    options: type[GenerateOptions] = GenerateOptions
    inspect: str | None = option(
        None,
        "show the content of a split, or of one shard given by its path, and exit",
        bare="train",
        metavar="SPLIT|SHARD",
    )
    plot_file: PathLike | None = option(
        None, "with --inspect: plot lengths and padding to this file (.png, .svg or .pdf)"
    )


def make_parser() -> cli.CommandParser:
    about = "Generate the data of a problem: vocabulary, TFRecord shards, manifest."
    return cli.CommandParser("datagen", about, Flags)


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = cli.parse_with_problem(parser, flags)
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
    options = cli.given(arguments, GenerateOptions) | arguments.problem_options
    if not arguments.kind and not arguments.t2t_problem:
        t2t.generate_data(
            arguments.problem, arguments.data_dir, tmp_dir=arguments.tmp_dir, display=CommandDisplay(), **options
        )
        return
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
