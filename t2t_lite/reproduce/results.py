"""The results of finished runs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_lite.data.problem import get_problem
from t2t_lite.evaluation.stored import stored_evaluations
from t2t_lite.reproduce.cost import training_figures
from t2t_lite.reproduce.runs import Run
from t2t_lite.reproduce.seeds import Seeds
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.run_dir import open_run_dir
from t2t_lite.runs.selection import select


class Result(NamedTuple):
    """A finished run and its metrics by name, such as "bleu" and "perplexity"."""

    run: Run
    figures: Mapping[str, float]


def read_results(runs: Sequence[Run]) -> list[Result]:
    """Returns the results of those runs that are evaluated, even if their data is gone."""
    results = []
    for run in runs:
        if not run.is_trained() or (run.averages and not list_checkpoints(run.directory, "average")):
            continue
        settings = get_problem(run.problem).decode_hparams.override(run.search)
        checkpoint = select(run.directory, run.checkpoint).path
        stored = stored_evaluations(open_run_dir(run.directory), run.split, checkpoint)
        for one in stored:
            key = one.content["decoded_by"]
            if one.decode_hparams == vars(settings) and run.is_of_data(key["inputs"], key["targets"]):
                results.append(Result(run, one.scores))
                break
    return results


def trainings_of(results: Sequence[Result]) -> dict[str, Mapping[str, float]]:
    """Returns the `training_figures` of each row, by `row_and_column`. Imports TensorFlow."""
    trainings: dict[str, Mapping[str, float]] = {}
    for result in results:
        key = row_and_column(result.run)
        if key not in trainings:
            trainings[key] = training_figures(
                open_run_dir(result.run.directory), Path(result.run.data_flags["data_dir"])
            )
    return trainings


def row_and_column(run: Run) -> str:
    """Returns the key of a row's results: "transformer_base EN-DE"."""
    return f"{run.row} {run.column}"


def over_seeds(results: Sequence[Result], figure: str, key: Callable[[Run], str] = lambda run: run.row) -> Seeds:
    values: dict[str, list[float]] = {}
    for result in results:
        if figure in result.figures:
            values.setdefault(key(result.run), []).append(result.figures[figure])
    return Seeds(values)
