"""t2t-lite-benchmark --curve: the evaluations of a run's checkpoints, as a table and a plot."""

import argparse
from pathlib import Path


def print_curve(arguments: argparse.Namespace) -> None:
    """Prints the table, and draws the plot if --plot_file is given."""
    import rich.table

    from t2t_lite.benchmark.curve import plot_curve
    from t2t_lite.benchmark.plot import check_plot_file
    from t2t_lite.bin import cli
    from t2t_lite.errors import UserError
    from t2t_lite.files import check_outputs
    from t2t_lite.training.evaluation.model_selection import read_evaluations

    run = Path(arguments.output_dir)
    if arguments.plot_file:
        check_plot_file(Path(arguments.plot_file))
        check_outputs({"--plot_file": Path(arguments.plot_file)}, {"the evaluations": run / "evaluations.json"})
    evaluations = read_evaluations(run)
    if not evaluations:
        raise UserError(f"{run} has no evaluations.json: none of its checkpoints was evaluated")
    names = list(dict.fromkeys(name for figures in evaluations.values() for name in figures))
    table = rich.table.Table("step", *names, box=None)
    for step, figures in evaluations.items():
        table.add_row(str(step), *(f"{figures[name]:.3f}" if name in figures else "" for name in names))
    cli.print_table(table)
    if arguments.plot_file:
        plot_curve(evaluations, run.resolve().name, Path(arguments.plot_file))
