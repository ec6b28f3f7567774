"""t2t-lite-benchmark --curve: shows the evaluations of runs in tables, and plots them with the training loss."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.errors import UserError
from t2t_lite.files import check_outputs
from t2t_lite.report.charts import plot_curves, read_curves
from t2t_lite.runs.evaluations import read_evaluations
from t2t_lite.visualization.figures import check_plot_file


def show(arguments: argparse.Namespace) -> None:
    try:
        runs = {name: Path(path) for name, path in _names(cli.paths(arguments.output_dir)).items()}
    except argparse.ArgumentTypeError as error:
        raise UserError(f"`output_dir`: {error}", status=2) from error
    if arguments.plot_file:
        check_plot_file(Path(arguments.plot_file))
        for run in runs.values():
            inputs = {"the evaluations": run / "evaluations.json", "the log": run / "log.jsonl"}
            check_outputs({"--plot_file": Path(arguments.plot_file)}, inputs)
    curves = [read_curves(run, name) for name, run in runs.items()]
    for one, run in zip(curves, runs.values()):
        if not one.evaluations["step"] and not (arguments.plot_file and one.training["step"]):
            raise UserError(f"{run} has no evaluations.json; evaluate it with t2t-lite-trainer --schedule=eval")
    for name, run in runs.items():
        if len(runs) > 1:
            print(f"{name}:")
        if evaluations := read_evaluations(run):
            _print_table(evaluations)
        else:
            print("none of its checkpoints was evaluated")
    if arguments.plot_file:
        plot_curves(curves, Path(arguments.plot_file))


def _print_table(evaluations: dict[int, dict[str, float]]) -> None:
    import rich.table

    names = list(dict.fromkeys(name for figures in evaluations.values() for name in figures))
    table = rich.table.Table("step", *names, box=None)
    for step, figures in evaluations.items():
        table.add_row(str(step), *(f"{figures[name]:.3f}" if name in figures else "" for name in names))
    cli.print_table(table)


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Returns run directories by name: the folder's name, or the whole path if several folders share that name."""
    paths = list({Path(path).resolve(): path for path in paths}.values())
    folders = [Path(path).resolve().name for path in paths]
    return {folder if folders.count(folder) == 1 else path: path for folder, path in zip(folders, paths)}
