"""t2t-lite-reproduce: reproduces a table of the paper at a scale that fits the machine, or a figure from a run."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.plugins import load_all

# Flags for the locations of treebanks, for table 4. The parsing problems have the same flags.
TREES = ("treebank", "train_trees", "dev_trees", "test_trees", "high_confidence", "berkeley_parser")
# Flags that are passed to the trainer.
DATA, DEVICES = ("data_dir", "tmp_dir"), ("strategy", "num_gpus")
# The flags that need --figure.
_OF_FIGURES = ("run_dir", "sentence", "word", "layer", "heads")


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("reproduce", _run, argv, exit_at_once=True)


def make_parser() -> cli.CommandParser:
    parser = cli.CommandParser(
        "reproduce",
        "Reproduce a table of the paper: make all runs that it needs, one by one, and write the table with the "
        "paper's values next to the measured ones. Run the same command again to continue. Or draw one of the paper's "
        "attention figures from a trained model.",
    )
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True).add_argument
    what("--table", type=cli.choice_type(("1", "2", "3", "4"), "table"), metavar="N", help="the table: 1, 2, 3 or 4")
    what("--figure", type=cli.choice_type(("3", "4", "5"), "figure"), metavar="N", help="the figure: 3, 4 or 5")
    add(
        "--scale",
        default="small",
        type=cli.choice_type(("tiny", "small", "paper"), "scale"),
        metavar="WORD",
        help="tiny: sentences from a grammar, takes minutes; small (default): Multi30k, takes hours; paper: WMT 2014 "
        "and the paper's models, only prints the commands and their costs",
    )
    add("--run", action="store_true", help="with --scale=paper: also run the commands")
    add(
        "--rows", default="", metavar="NAME,...", help="only these rows of the table, such as base,h1,l2 (default: all)"
    )
    add(
        "--seeds",
        type=cli.whole_number(1),
        help="number of training runs per row (default: 3; with --scale=paper 1, as in the paper)",
    )
    add("--budget_minutes", type=cli.positive_number, metavar="M", help="stop after M minutes")
    add("--dry_run", action="store_true", help="show the runs, their time and their disk space, and exit")
    add(
        "--output_dir",
        type=cli.path,
        default="reproduced",
        help="folder for tables, figures, data and run directories (default: reproduced)",
    )
    add("--data_dir", type=cli.path, help="folder with the data (default: data in --output_dir)")
    add("--tmp_dir", type=cli.path, help="folder for source files, which are downloaded if missing")
    devices = parser.add_argument_group("devices").add_argument
    devices("--strategy", help="see t2t-lite-trainer")
    devices("--num_gpus", type=cli.whole_number(0), help="see t2t-lite-trainer")
    trees = parser.add_argument_group("treebanks, for table 4; see t2t-lite-datagen").add_argument
    for flag in TREES:
        trees(f"--{flag}", type=cli.path, metavar="PATH")
    _add_figures(parser)
    return parser


def _add_figures(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("figures").add_argument
    add("--run_dir", type=cli.path, metavar="RUN", help="the run directory of the model")
    add("--sentence", help="the sentence (default: the first in the dev split that suits the figure)")
    add("--word", help="the word (default: for figure 3, the one with most weight far away; for figure 4, a pronoun)")
    add(
        "--layer",
        type=cli.whole_number(0),
        help="the encoder layer, from 0 (default: the one that corresponds to the paper's layer 5 of 6)",
    )
    add("--heads", type=cli.numbers, metavar="N,...", help="heads from 0 (default: chosen by their weights)")


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)

    _check(parser, arguments)
    load_all(arguments.t2t_usr_dir)
    if arguments.figure:
        if not arguments.run_dir:
            parser.error("--figure needs --run_dir=RUN, the run directory of a trained model")
        from t2t_lite.bin.reproduce import figure

        figure.draw(arguments)
        return

    folder = Path(arguments.output_dir)
    budget = None if arguments.budget_minutes is None else 60 * arguments.budget_minutes
    from t2t_lite.bin.reproduce import tables

    if arguments.table == "1":
        tables.measure_table_1(arguments, folder, budget)
        return
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    data, devices, trees = ({name: given[name] for name in names if name in given} for names in (DATA, DEVICES, TREES))
    tables.train_and_write(arguments, folder, budget, data, devices, trees)


def _check(parser: cli.CommandParser, arguments: argparse.Namespace) -> None:
    if Path(arguments.output_dir).is_file():
        parser.error(f"--output_dir={arguments.output_dir} is a file; pass a folder")
    for flag in _OF_FIGURES if arguments.table else ("rows", "seeds", "run", "budget_minutes", "dry_run", *DEVICES):
        if getattr(arguments, flag):
            parser.error(f"--{flag} is for {'figures' if arguments.table else 'tables'}")
    if arguments.run and arguments.scale != "paper":
        parser.error("--run only applies to --scale=paper; the other scales always run")
    if arguments.table == "1":
        for flag in ("rows", "seeds", "data_dir", "tmp_dir", *DEVICES):
            if getattr(arguments, flag):
                parser.error(f"--{flag} is for tables 2, 3 and 4")
    for flag in TREES if arguments.table != "4" else ():
        if getattr(arguments, flag):
            parser.error(f"--{flag} is for table 4")
