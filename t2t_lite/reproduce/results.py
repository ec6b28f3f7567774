"""The figures of finished runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from t2t_lite.checkpoints.versions import list_checkpoints
from t2t_lite.reproduce.runs import Run
from t2t_lite.reproduce.seeds import Seeds


class Result(NamedTuple):
    """A finished run and its figures by name, such as "bleu" and "perplexity"."""

    run: Run
    figures: Mapping[str, float]


def results_of(runs: Sequence[Run]) -> list[Result]:
    """Returns the results of those runs that have been evaluated."""
    from t2t_lite.evaluation.request import make_request
    from t2t_lite.evaluation.scoring import stored_scores
    from t2t_lite.run_dir import open_run_dir

    found = []
    for run in runs:
        if not run.is_trained() or (run.averages and not list_checkpoints(run.directory, "average")):
            continue
        opened = open_run_dir(run.directory)
        request = make_request(opened, run.split, run.data_flags["data_dir"], run.checkpoint, run.search)
        if (scores := stored_scores(request)) is not None:
            found.append(Result(run, scores.scores))
    return found


def over_seeds(results: Sequence[Result], figure: str, key: Callable[[Run], str] = lambda run: run.row) -> Seeds:
    """Returns a figure over seeds, by row or by another key of the runs."""
    values: dict[str, list[float]] = {}
    for result in results:
        if figure in result.figures:
            values.setdefault(key(result.run), []).append(result.figures[figure])
    return Seeds(values)
