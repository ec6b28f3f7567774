"""Makes the runs of a table and writes it, measures table 1, or draws a figure of the paper from a run."""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.bin import cli
from t2t_lite.cost import RATES
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.loading import open_model
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.translator import Translator
from t2t_lite.display import format_duration
from t2t_lite.errors import UserError
from t2t_lite.files import make_folder
from t2t_lite.parsing.parser import Parser
from t2t_lite.reproduce import table_1
from t2t_lite.reproduce.figures import FIGURE_EXTENSIONS, Choices, sentence_for
from t2t_lite.reproduce.figures import draw_figure as draw
from t2t_lite.reproduce.paper import DEVICE, NUM_DEVICES
from t2t_lite.reproduce.runs import SCALES, Run, Runner, Scale, check_trees, planned_runs, spent
from t2t_lite.reproduce.tables import TABLES, Cost, Grid, costs, observations, read_results, trainings_of
from t2t_lite.system.machine import num_cores
from t2t_lite.system.tensorflow import import_tensorflow
from t2t_lite.visualization.figures import check_html, check_matplotlib


def measure_table_1(arguments: argparse.Namespace) -> None:
    """Measures the layers of table 1 until the time is up, and writes the table."""
    folder = Path(arguments.output_dir)
    left = [name for name in table_1.LAYERS if name not in table_1.read(folder / table_1.FILE.format(arguments.scale))]
    if arguments.dry_run:
        cli.say(f"{len(left)} layers to measure up to n = {table_1.MAX_LENGTHS[arguments.scale]}, about a minute each")
        return
    make_folder(folder, "`output_dir`")
    runner = Runner(folder, arguments.budget_minutes, cli.program, cli.say)
    table_1.measure_table_1(arguments.scale, folder, lambda: runner.is_over, cli.say)
    _write(table_1.table_1(arguments.scale, folder), folder, f"table1.{arguments.scale}")


def train_and_write(
    arguments: argparse.Namespace, data: dict[str, Any], devices: dict[str, Any], trees: dict[str, Any]
) -> None:
    """Makes the runs of table 2, 3 or 4 with the given flags of the trainer, and writes the table after each."""
    folder = Path(arguments.output_dir)
    table, scale = int(arguments.table), SCALES[arguments.scale]
    rows = [row for row in arguments.rows.split(",") if row.strip()]
    runs = planned_runs(table, scale, rows, arguments.seeds or scale.seeds, folder, data | trees, devices)
    if arguments.dry_run or (scale.name == "paper" and not arguments.run):
        done = {result.run.name for result in read_results(runs)}
        _print_plan(runs, scale, costs(runs, scale, spent(folder, "trainer")), done, folder)
        return
    if table == 4:
        check_trees(runs, trees)
    runner = Runner(folder, arguments.budget_minutes, cli.program, cli.say)
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
    if not (results := read_results(runs)):
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


def _print_plan(runs: Sequence[Run], scale: Scale, cost: Mapping[str, Cost], done: set[str], folder: Path) -> None:
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
    cli.say(
        f"\n{len(left)} of {len(runs)} runs to do: about {format_duration(seconds)} of training on this machine; "
        f"they need {size / 2**30:,.1f} GiB of disk, and {shutil.disk_usage(existing).free / 2**30:,.1f} GiB are free"
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


def _write(grid: Grid, folder: Path, name: str, more: str = "", quiet: bool = False) -> None:
    paths = grid.write(folder, name, more)
    if not quiet:
        cli.say(grid.markdown() + (f"\n{more}" if more else ""))
        cli.say(f"wrote {', '.join(map(str, paths))}")


def draw_figure(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.output_dir)
    number = int(arguments.figure)
    source = open_model(arguments.run_dir)
    run_dir, run = source.run_dir, source.run_dir.path
    check_html("figure")
    check_matplotlib("figure")
    for ending in FIGURE_EXTENSIONS if folder.is_dir() else ():
        file = folder / f"figure{number}{ending}"
        if file.is_dir():
            raise UserError(f"`output_dir={folder}`: {file} is a folder; remove it, or pass another folder")
    line = arguments.sentence
    if not line:
        side, _ = run_dir.problem.in_direction(("inputs", "targets"))
        path = run_dir.data_dir / run_dir.problem.text_filename("dev", side) if run_dir.data_dir else None
        if path is None or not path.exists():
            raise UserError(f"the dev split of {run} is no longer where it was during training; pass `sentence`")
        if (line := sentence_for(number, read_lines(path))) is None:
            raise UserError(
                f"the dev split of {run} has no suitable sentence for figure {number}; pass one with `sentence`"
            )
    import_tensorflow()
    translator = Translator.of(source, EngineOptions(cli.warn))
    model = Parser(translator) if source.writes_trees else translator
    if not model.attention_layers.get("encoder"):
        raise UserError(f"{run}: the encoder has no attention weights; choose a run whose encoder has")
    choices = Choices(arguments.layer, arguments.heads, arguments.word)
    drawn = draw(number, model, line, model.translate(line), folder, choices)
    cli.say(drawn.caption)
    cli.say(f"wrote {', '.join(map(str, drawn.files))}")
