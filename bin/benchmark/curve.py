"""t2t-lite-benchmark --curve: shows the evaluations of runs in tables, and plots them with the training loss."""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.errors import UserError
from t2t_lite.files import check_outputs
from t2t_lite.report.charts import plot_curves
from t2t_lite.report.reading import StoredRun, read_run
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
    evaluations = {name: read_evaluations(run) for name, run in runs.items()}
    stored = {name: _read(run, name) for name, run in runs.items()} if arguments.plot_file else {}
    for name, run in runs.items():
        if not evaluations[name] and not (stored and stored[name].reports):
            raise UserError(f"{run} has no evaluations.json; evaluate it with t2t-lite-trainer --schedule=eval")
    for name in runs:
        if len(runs) > 1:
            print(f"{name}:")
        if evaluations[name]:
            _print_table(evaluations[name])
        else:
            print("none of its checkpoints was evaluated")
    if arguments.plot_file:
        drawn = [dataclasses.replace(run, evaluations=evaluations[name]) for name, run in stored.items()]
        plot_curves(drawn, Path(arguments.plot_file))


def _read(run: Path, name: str) -> StoredRun:
    stored = read_run(run, name)
    for remark in stored.remarks:
        if remark.text.startswith("log.jsonl is damaged"):
            cli.warn(f"{run}: {remark.text}")
    return stored


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
