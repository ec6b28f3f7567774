"""t2t-lite-reproduce: reproduces a table of the paper at a scale that fits the machine, or a figure from a run."""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.bin.reproduce import figure

if TYPE_CHECKING:
    from t2t_lite.reproduce.cost import Cost
    from t2t_lite.reproduce.grid import Grid
    from t2t_lite.reproduce.runner import Runner
    from t2t_lite.reproduce.runs import Run, Scale

# Flags for the locations of treebanks, for table 4. The parsing problems have the same flags.
TREES = ("treebank", "train_trees", "dev_trees", "test_trees", "high_confidence", "berkeley_parser")
# Flags that are passed to the trainer.
DATA, DEVICES = ("data_dir", "tmp_dir"), ("strategy", "num_gpus")


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
    figure.add_flags(parser)
    return parser


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    from t2t_lite.plugins import load_all

    _check(parser, arguments)
    load_all(arguments.t2t_usr_dir)
    if arguments.figure:
        figure.draw(parser, arguments)
        return
    from t2t_lite.reproduce.runner import Runner

    folder = Path(arguments.output_dir)
    budget = None if arguments.budget_minutes is None else 60 * arguments.budget_minutes
    runner = Runner(folder, budget, cli.program, cli.say)
    (_table_1 if arguments.table == "1" else _other_table)(arguments, folder, runner)


def _check(parser: cli.CommandParser, arguments: argparse.Namespace) -> None:
    if Path(arguments.output_dir).is_file():
        parser.error(f"--output_dir={arguments.output_dir} is a file; pass a folder")
    for flag in figure.FLAGS if arguments.table else ("rows", "seeds", "run", "budget_minutes", "dry_run", *DEVICES):
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


def _table_1(arguments: argparse.Namespace, folder: Path, runner: "Runner") -> None:
    from t2t_lite.files import make_folder
    from t2t_lite.reproduce.table_1 import FILE, LAYERS, MAX_LENGTHS, measure_table_1, read, table_1

    left = [name for name in LAYERS if name not in read(folder / FILE.format(arguments.scale))]
    if arguments.dry_run:
        cli.say(f"{len(left)} layers to measure up to n = {MAX_LENGTHS[arguments.scale]}, about a minute each")
        return
    make_folder(folder, "`output_dir`")
    measure_table_1(arguments.scale, folder, lambda: runner.is_over, cli.say)
    _write(table_1(arguments.scale, folder), folder, f"table1.{arguments.scale}")


def _other_table(arguments: argparse.Namespace, folder: Path, runner: "Runner") -> None:
    from t2t_lite.reproduce.cost import costs
    from t2t_lite.reproduce.results import read_results
    from t2t_lite.reproduce.runner import spent
    from t2t_lite.reproduce.runs import SCALES, check_trees, planned_runs

    table, scale = int(arguments.table), SCALES[arguments.scale]
    rows = [row for row in arguments.rows.split(",") if row.strip()]
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    data, devices, trees = ({name: given[name] for name in names if name in given} for names in (DATA, DEVICES, TREES))
    runs = planned_runs(table, scale, rows, arguments.seeds or scale.seeds, folder, data | trees, devices)
    if arguments.dry_run or (scale.name == "paper" and not arguments.run):
        _print_plan(runs, scale, costs(runs, scale, spent(folder, "trainer")), folder)
        return
    if table == 4:
        check_trees(runs, trees)
    complete = True
    for run in runs:
        if read_results([run]):
            continue
        complete = _finish(run, runner)
        if not complete:
            break
        _write_table(table, runs, scale, folder, quiet=True)
    _write_table(table, runs, scale, folder, quiet=False)
    results = read_results(runs)
    if not complete:
        cli.say(
            f"time limit reached: {len(results)} of {len(runs)} runs are done; run the same command again to continue"
        )


def _write_table(table: int, runs: "Sequence[Run]", scale: "Scale", folder: Path, quiet: bool) -> None:
    from t2t_lite.display import format_duration
    from t2t_lite.reproduce.results import read_results, trainings_of
    from t2t_lite.reproduce.runner import spent
    from t2t_lite.reproduce.tables import TABLES, observations
    from t2t_lite.system.machine import num_cores

    results = read_results(runs)
    if not results:
        return
    verdicts = observations(results) if table == 3 else None
    times = spent(folder)
    taken = [times[run.name] for run in runs if run.name in times]
    seconds, cpu_seconds = (sum(getattr(one, name) for one in taken) for name in ("seconds", "cpu_seconds"))
    line = (
        f"{len(taken)} runs took {format_duration(seconds)} and {format_duration(cpu_seconds)} of processor time on "
        f"{num_cores()} cores, including evaluations and killed commands.\n"
    )
    grid = TABLES[table](results, scale, trainings_of(results))
    _write(grid, folder, f"table{table}.{scale.name}", f"{verdicts.markdown()}\n{line}" if verdicts else line, quiet)


def _finish(run: "Run", runner: "Runner") -> bool:
    """Executes the remaining steps of a run. Returns False if the time runs out first."""
    commands = ([] if run.is_trained() else [run.training()]) + run.evaluation()
    return all(not runner.is_over and runner.execute(run, command) for command in commands)


def _print_plan(runs: "Sequence[Run]", scale: "Scale", cost: "Mapping[str, Cost]", folder: Path) -> None:
    from t2t_lite.display import format_duration
    from t2t_lite.reproduce.results import read_results

    done = {result.run.name for result in read_results(runs)}
    table = cli.table("run", "state", "parameters", "steps", "FLOPs", "time here", "disk, MiB", left=2)
    for run in runs:
        one = cost[run.name]
        table.add_row(
            run.name,
            "done" if run.name in done else ("trained" if run.is_trained() else "to do"),
            f"{one.parameters:,}",
            f"{run.hparams.train_steps:,}",
            f"{one.flops:.2g}",
            format_duration(one.seconds),
            f"{one.disk_bytes / 2**20:,.0f}",
        )
    cli.print_table(table)
    left = [run for run in runs if run.name not in done]
    seconds, size = (sum(getattr(cost[run.name], name) for run in left) for name in ("seconds", "disk_bytes"))
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    cli.say(
        f"\n{len(left)} of {len(runs)} runs to do: about {format_duration(seconds)} of training on this machine; "
        f"they need {size / 2**30:,.1f} GiB of disk, and {free / 2**30:,.1f} GiB are free"
    )
    if scale.name == "paper":
        _print_paper(left, cost)
    for run in left:
        cli.say("\n" + "\n".join(f"{command}" for command in (run.training(), *run.evaluation())))


def _print_paper(runs: "Sequence[Run]", cost: "Mapping[str, Cost]") -> None:
    from t2t_lite.cost.flops import RATES
    from t2t_lite.reproduce.paper_figures import DEVICE, NUM_DEVICES

    flops = sum(cost[run.name].flops for run in runs)
    rate = NUM_DEVICES * RATES[DEVICE].tflops * 1e12
    cli.say(
        f"{flops:.2g} FLOPs in total: {flops / rate / 3600:,.0f} hours on the paper's {NUM_DEVICES} {DEVICE} GPUs at "
        f"their sustained {RATES[DEVICE].tflops} TFLOPS; the paper's base model took 12 hours, its big one 3.5 days"
    )
    cli.say("the commands below run unchanged on one machine with 8 GPUs; --run executes them one after another")


def _write(grid: "Grid", folder: Path, name: str, more: str = "", quiet: bool = False) -> None:
    paths = grid.write(folder, name, more)
    if not quiet:
        cli.say(grid.markdown() + (f"\n{more}" if more else ""))
        cli.say(f"wrote {', '.join(map(str, paths))}")
