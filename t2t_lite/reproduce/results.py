"""The figures of finished runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from t2t_lite.reproduce.runs import Run
from t2t_lite.reproduce.seeds import Seeds


class Result(NamedTuple):
    """A finished run and its figures by name, such as "bleu" and "perplexity"."""

    run: Run
    figures: Mapping[str, float]


def results_of(runs: Sequence[Run]) -> list[Result]:
    """Returns the results of those runs that have been evaluated."""
    from t2t_lite.evaluation.store import stored_scores

    found = []
    for run in runs:
        scores = stored_scores(run.directory, run.split, run.checkpoint) if run.is_trained() else None
        if scores is not None:
            found.append(Result(run, scores))
    return found


def over_seeds(results: Sequence[Result], figure: str, key: Callable[[Run], str] = lambda run: run.row) -> Seeds:
    """Returns a figure over seeds, by row or by another key of the runs."""
    values: dict[str, list[float]] = {}
    for result in results:
        if figure in result.figures:
            values.setdefault(key(result.run), []).append(result.figures[figure])
    return Seeds(values)
