"""t2t-lite-reproduce: reproduces a table of the paper at a scale that fits the machine, or a figure from a run."""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.cost import RATES
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.display import format_duration
from t2t_lite.errors import UserError
from t2t_lite.files import make_folder
from t2t_lite.options import option
from t2t_lite.reproduce.paper import DEVICE, NUM_DEVICES
from t2t_lite.reproduce.runs import SCALES, Run, Runner, Scale, check_trees, planned_runs, spent
from t2t_lite.system.machine import num_cores
from t2t_lite.system.tensorflow import import_tensorflow
from t2t_lite.visualization.figures import check_html, check_matplotlib

if TYPE_CHECKING:
    from t2t_lite.reproduce.grid import Grid
    from t2t_lite.reproduce.tables import Cost

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
    if arguments.figure:
        if not arguments.run_dir:
            parser.error("--figure needs --run_dir=RUN, the run directory of a trained model")
        _draw_figure(arguments)
        return

    folder = Path(arguments.output_dir)
    budget = None if arguments.budget_minutes is None else 60 * arguments.budget_minutes
    if arguments.table == "1":
        _measure_table_1(arguments, folder, budget)
        return
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    data, devices, trees = ({name: given[name] for name in names if name in given} for names in (DATA, DEVICES, TREES))
    _train_and_write(arguments, folder, budget, data, devices, trees)


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


def _measure_table_1(arguments: argparse.Namespace, folder: Path, budget: float | None) -> None:
    """Measures the layers of table 1 for at most `budget` seconds, and writes the table."""
    from t2t_lite.reproduce import table_1

    left = [name for name in table_1.LAYERS if name not in table_1.read(folder / table_1.FILE.format(arguments.scale))]
    if arguments.dry_run:
        cli.say(f"{len(left)} layers to measure up to n = {table_1.MAX_LENGTHS[arguments.scale]}, about a minute each")
        return
    make_folder(folder, "`output_dir`")
    runner = Runner(folder, budget, cli.program, cli.say)
    table_1.measure_table_1(arguments.scale, folder, lambda: runner.is_over, cli.say)
    _write(table_1.table_1(arguments.scale, folder), folder, f"table1.{arguments.scale}")


def _train_and_write(
    arguments: argparse.Namespace,
    folder: Path,
    budget: float | None,
    data: dict[str, Any],
    devices: dict[str, Any],
    trees: dict[str, Any],
) -> None:
    """Makes the runs of table 2, 3 or 4 with the given flags of the trainer, and writes the table after each."""
    from t2t_lite.reproduce.tables import costs, read_results

    table, scale = int(arguments.table), SCALES[arguments.scale]
    rows = [row for row in arguments.rows.split(",") if row.strip()]
    runs = planned_runs(table, scale, rows, arguments.seeds or scale.seeds, folder, data | trees, devices)
    if arguments.dry_run or (scale.name == "paper" and not arguments.run):
        done = {result.run.name for result in read_results(runs)}
        _print_plan(runs, scale, costs(runs, scale, spent(folder, "trainer")), done, folder)
        return
    if table == 4:
        check_trees(runs, trees)
    runner = Runner(folder, budget, cli.program, cli.say)
    complete = True
    for run in runs:
        if read_results([run]):
            continue
        commands = ([] if run.is_trained() else [run.training()]) + run.evaluation()
        complete = all(not runner.is_over and runner.execute(run, command) for command in commands)
        if not complete:
            break
        _write_table(table, runs, scale, folder, quiet=True)
    _write_table(table, runs, scale, folder, quiet=False)
    results = read_results(runs)
    if not complete:
        cli.say(
            f"time limit reached: {len(results)} of {len(runs)} runs are done; run the same command again to continue"
        )


def _write_table(table: int, runs: Sequence[Run], scale: Scale, folder: Path, quiet: bool) -> None:
    from t2t_lite.reproduce import tables

    results = tables.read_results(runs)
    if not results:
        return
    verdicts = tables.observations(results) if table == 3 else None
    times = spent(folder)
    taken = [times[run.name] for run in runs if run.name in times]
    seconds, cpu_seconds = (sum(getattr(one, name) for one in taken) for name in ("seconds", "cpu_seconds"))
    line = (
        f"{len(taken)} runs took {format_duration(seconds)} and {format_duration(cpu_seconds)} of processor time on "
        f"{num_cores()} cores, including evaluations and killed commands.\n"
    )
    grid = tables.TABLES[table](results, scale, tables.trainings_of(results))
    _write(grid, folder, f"table{table}.{scale.name}", f"{verdicts.markdown()}\n{line}" if verdicts else line, quiet)


def _print_plan(runs: Sequence[Run], scale: Scale, cost: "Mapping[str, Cost]", done: set[str], folder: Path) -> None:
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
        flops = sum(cost[run.name].flops for run in left)
        rate = NUM_DEVICES * RATES[DEVICE].tflops * 1e12
        cli.say(
            f"{flops:.2g} FLOPs in total: {flops / rate / 3600:,.0f} hours on the paper's {NUM_DEVICES} {DEVICE} GPUs "
            f"at their sustained {RATES[DEVICE].tflops} TFLOPS; the paper's base model took 12 hours, its big one "
            f"3.5 days"
        )
        cli.say("the commands below run unchanged on one machine with 8 GPUs; --run executes them one after another")
    for run in left:
        cli.say("\n" + "\n".join(f"{command}" for command in (run.training(), *run.evaluation())))


def _write(grid: "Grid", folder: Path, name: str, more: str = "", quiet: bool = False) -> None:
    paths = grid.write(folder, name, more)
    if not quiet:
        cli.say(grid.markdown() + (f"\n{more}" if more else ""))
        cli.say(f"wrote {', '.join(map(str, paths))}")


def _draw_figure(arguments: argparse.Namespace) -> None:
    from t2t_lite.decoding.loading import open_model
    from t2t_lite.reproduce import figures

    folder = Path(arguments.output_dir)
    number = int(arguments.figure)
    source = open_model(arguments.run_dir)
    run_dir = source.run_dir
    check_html("figure")
    check_matplotlib("figure")
    for ending in figures.FIGURE_EXTENSIONS if folder.is_dir() else ():
        file = folder / f"figure{number}{ending}"
        if file.is_dir():
            raise UserError(f"`output_dir={folder}`: {file} is a folder; remove it, or pass another folder")
    line = arguments.sentence
    if not line:
        side, _ = run_dir.problem.in_direction(("inputs", "targets"))
        path = run_dir.data_dir / run_dir.problem.text_filename("dev", side) if run_dir.data_dir else None
        if path is None or not path.exists():
            raise UserError(
                f"the dev split of {run_dir.path} is no longer where it was during training; pass `sentence`"
            )
        line = figures.sentence_for(number, read_lines(path))
        if line is None:
            raise UserError(
                f"the dev split of {run_dir.path} has no suitable sentence for figure {number}; pass one with "
                f"`sentence`"
            )
    import_tensorflow()
    translator = t2t.Translator.of(source, EngineOptions(cli.warn))
    model = t2t.Parser(translator) if source.writes_trees else translator
    if not model.attention_layers.get("encoder"):
        raise UserError(f"{run_dir.path}: the encoder has no attention weights; choose a run whose encoder has")
    choices = figures.Choices(arguments.layer, arguments.heads, arguments.word)
    drawn = figures.draw_figure(number, model, line, model.translate(line), folder, choices)
    cli.say(drawn.caption)
    cli.say(f"wrote {', '.join(map(str, drawn.files))}")
