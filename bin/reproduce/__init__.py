"""t2t-lite-reproduce: reproduces a table of the paper at a scale that fits the machine, or a figure from a run."""

import argparse
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.options import option

# Flags for the locations of treebanks, for table 4. The parsing problems have the same flags.
TREES = ("treebank", "train_trees", "dev_trees", "test_trees", "high_confidence", "berkeley_parser")
# Flags that are passed to the trainer.
DATA, DEVICES = ("data_dir", "tmp_dir"), ("strategy", "num_gpus")


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("reproduce", _run, argv, exit_at_once=True)


class Flags(cli.Flags):
    table: str | None = option(
        None, "the table: 1, 2, 3 or 4", required=True, one_of=True, choices=("1", "2", "3", "4"), metavar="N"
    )
    figure: str | None = option(None, "the figure: 3, 4 or 5", one_of=True, choices=("3", "4", "5"), metavar="N")
    scale: str = option(
        "small",
        "tiny: sentences from a grammar, takes minutes; small (default): Multi30k, takes hours; paper: WMT 2014 and "
        "the paper's models, only prints the commands and their costs",
        choices=("tiny", "small", "paper"),
        metavar="WORD",
    )
    run: bool = option(False, "with --scale=paper: also run the commands")
    rows: str = option("", "only these rows of the table, such as base,h1,l2", unset="all", metavar="NAME,...")
    seeds: int | None = option(
        None, "number of training runs per row", unset="3; with --scale=paper 1, as in the paper", at_least=1
    )
    budget_minutes: float | None = option(None, "stop after M minutes", above=0, metavar="M")
    dry_run: bool = option(False, "show the runs, their time and their disk space, and exit")
    output_dir: PathLike | str = option("reproduced", "folder for tables, figures, data and run directories")
    data_dir: PathLike | None = option(None, "folder with the data", unset="data in --output_dir")
    tmp_dir: PathLike | None = option(None, "folder for source files, which are downloaded if missing")
    strategy: str | None = option(None, "see t2t-lite-trainer", group="devices")
    num_gpus: int | None = option(None, "see t2t-lite-trainer", at_least=0)
    treebank: PathLike | None = option(None, group="treebanks, for table 4; see t2t-lite-datagen", metavar="PATH")
    train_trees: PathLike | None = option(None, metavar="PATH")
    dev_trees: PathLike | None = option(None, metavar="PATH")
    test_trees: PathLike | None = option(None, metavar="PATH")
    high_confidence: PathLike | None = option(None, metavar="PATH")
    berkeley_parser: PathLike | None = option(None, metavar="PATH")
    run_dir: PathLike | None = option(None, "the run directory of the model", group="figures", metavar="RUN")
    sentence: str | None = option(None, "the sentence", unset="the first in the dev split that suits the figure")
    word: str | None = option(
        None, "the word", unset="for figure 3, the one with most weight far away; for figure 4, a pronoun"
    )
    layer: int | None = option(
        None, "the encoder layer, from 0", unset="the one that corresponds to the paper's layer 5 of 6", at_least=0
    )
    heads: Sequence[int] | None = option(None, "heads from 0", unset="chosen by their weights", metavar="N,...")


def make_parser() -> cli.CommandParser:
    return cli.CommandParser(
        "reproduce",
        "Reproduce a table of the paper: make all runs that it needs, one by one, and write the table with the "
        "paper's values next to the measured ones. Run the same command again to continue. Or draw one of the paper's "
        "attention figures from a trained model.",
        Flags,
    )


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    _check(parser, arguments)
    cli.load_plugins(arguments)
    from t2t_lite.bin.reproduce import results

    if arguments.figure:
        results.draw_figure(arguments)
    elif arguments.table == "1":
        results.measure_table_1(arguments)
    else:
        given = {name: value for name, value in vars(arguments).items() if value is not None}
        parts = ({name: given[name] for name in names if name in given} for names in (DATA, DEVICES, TREES))
        results.train_and_write(arguments, *parts)


def _check(parser: cli.CommandParser, arguments: argparse.Namespace) -> None:
    if Path(arguments.output_dir).is_file():
        parser.error(f"--output_dir={arguments.output_dir} is a file; pass a folder")
    if arguments.table:
        parser.refuse(arguments, ("run_dir", "sentence", "word", "layer", "heads"), "{} is for figures")
    else:
        names = ("rows", "seeds", "run", "budget_minutes", "dry_run", *DEVICES)
        parser.refuse(arguments, names, "{} is for tables")
    if arguments.run and arguments.scale != "paper":
        parser.error("--run only applies to --scale=paper; the other scales always run")
    if arguments.table == "1":
        names = ("rows", "seeds", "data_dir", "tmp_dir", *DEVICES)
        parser.refuse(arguments, names, "{} is for tables 2, 3 and 4")
    if arguments.table != "4":
        parser.refuse(arguments, TREES, "{} is for table 4")
    if arguments.figure and not arguments.run_dir:
        parser.error("--figure needs --run_dir=RUN, the run directory of a trained model")
