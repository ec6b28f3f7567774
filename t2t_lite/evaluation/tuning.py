"""Tunes search settings on dev, and stores the best ones only if they are significantly better."""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from t2t_lite.config import DecodeHParams
from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError, nearest
from t2t_lite.evaluation.request import FOLDER, EvalRequest, folder_name
from t2t_lite.evaluation.scoring import score
from t2t_lite.evaluation.tuning_report import tuning_report
from t2t_lite.files import as_json, write_text, written_folder
from t2t_lite.metric import make_metric, options_for, references_taken
from t2t_lite.registry import METRICS
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.tuned_settings import (
    ALPHA,
    AVERAGE,
    BEAM_SIZE,
    TunedSettings,
    forget,
    remember,
    search_settings,
    tuned_settings,
)
from t2t_lite.scoring.significance import compare_by_both_tests, holm
from t2t_lite.system.tensorflow import tensorflow_job

FORGET = "forget"
SIGNIFICANT = 0.05
TUNE, REPORT = "tune.json", "report.md"
# The values to try for each setting; for average_checkpoints, how many of the last checkpoints to average. A missing
# setting keeps its current value.
Grid: TypeAlias = dict[str, tuple[Any, ...]]
_USUAL: Grid = {
    ALPHA: tuple(round(0.2 * number, 1) for number in range(11)),
    BEAM_SIZE: (1, 2, 4, 8),
    AVERAGE: (1, 5, 10),
}
_SYNTAX = "write values as alpha=0/0.6/1, or a range with a step as alpha=0:2:0.2"
_MOST = 200  # maximum number of values for a setting
_FORMAT = 2
_MOST_DECODED = 4  # maximum number of real searches to confirm a choice, not counting previously tuned settings


def parse_grid(text: str) -> Grid:
    """Parses the value of --tune, which names settings, with or without values."""
    values: Grid = {}
    for part in (part.strip() for part in text.split(",")):
        name, equals, given = (each.strip() for each in part.partition("="))
        if name not in _USUAL:
            raise UserError(f"`tune={text}`: '{name}' cannot be tuned{nearest(name, [*_USUAL, FORGET])}", status=2)
        if name in values:
            raise UserError(f"`tune={text}`: {name} is given twice; give it once", status=2)
        values[name] = _values(text, name, given) if equals else _USUAL[name]
    return {name: values[name] for name in _USUAL if name in values}


def _values(text: str, name: str, given: str) -> tuple[float, ...]:
    """Returns the values "a/b/c" or "first:last:step" in ascending order."""
    kind = float if name == ALPHA else int
    try:
        if ":" in given:
            first, last, step = (kind(number) for number in given.split(":"))
            if step <= 0 or last < first or (last - first) / step > _MOST:
                raise ValueError
            # Rounded, so that 0.1 + 0.2 is 0.3.
            numbers = (round(first + number * step, 6) for number in itertools.count())
            values = list(itertools.takewhile(lambda value: value <= last + 1e-9, numbers))
        else:
            values = [kind(number) for number in given.split("/")]
        least = 0 if name == ALPHA else 1
        if not all(least <= value < 2**31 for value in values):  # also rejects NaN
            raise ValueError
    except ValueError as error:
        raise UserError(f"`tune={text}`: '{given}' are not values of {name}; {_SYNTAX}", status=2) from error
    return tuple(sorted(set(values)))


@dataclasses.dataclass(frozen=True)
class Tuned:
    path: Path  # the folder with tune.json and report.md
    content: Mapping[str, Any] = dataclasses.field(repr=False, hash=False)  # everything in tune.json
    # Whether this result sets the run's default settings: the better ones, or the problem's if none are better. False
    # if the search did not start from the run's own settings; the defaults then stay unchanged.
    decides: bool
    # The previously tuned settings, which the grid includes.
    earlier: TunedSettings = dataclasses.field(hash=False)
    searched_now: bool  # whether this call decoded anything

    @property
    def report(self) -> str:
        return tuning_report(self.content, self.decides, self.earlier)


def tune(request: EvalRequest, grid: Grid) -> Tuned:
    """Tries the settings in a grid, and stores the best ones if they are significantly better than the problem's.

    Previously tuned settings are tried, too. If nothing is significantly better, they are removed, so that the settings
    in use are always among those compared. The request must be for the current checkpoint on dev. For the settings in
    the grid, it must have the problem's values, not previously tuned ones, so that repeated calls give the same result.
    """
    problem, path = request.source.run_dir.problem, request.source.run_dir.path
    _check(problem, request.source.settings)
    earlier = tuned_settings(path).only(grid)
    tried = _existing(grid, path)
    for name, value in earlier.settings.items():
        tried[name] = tuple(sorted({*tried[name], value}))
    folder = path / FOLDER / folder_name("tune", request.source.selection.path, ",".join(tried))
    key = {"decoded_by": request.decoded_by(), "grid": {name: list(values) for name, values in tried.items()}}
    content = None if request.again else _stored(folder, key)
    searched_now = content is None
    if content is None:
        content = {"format": _FORMAT, **key, **_search(request, tried, earlier.settings)}
        with written_folder(folder, "`output_dir`") as partial:
            write_text(partial / TUNE, as_json(content) + "\n")
    own = search_settings(path, problem.decode_hparams, warn=lambda line: None, ignored=grid)
    tuned = Tuned(folder, content, request.source.settings == own, earlier, searched_now)
    write_text(folder / REPORT, tuned.report)
    better = content["better"]
    if tuned.decides and (better or earlier.settings):
        others = {name: value for name, value in tuned_settings(path).settings.items() if name not in grid}
        about = {"tuned_on": request.split, "report": f"{FOLDER}/{folder.name}/{REPORT}"}
        if better or others:
            checkpoint = request.source.selection.path.name if better else earlier.checkpoint
            remember(path, TunedSettings({**others, **better}, checkpoint), about)
        else:
            forget(path)
    return tuned


def _existing(grid: Grid, directory: Path) -> Grid:
    """Returns a grid without averages of more checkpoints than exist. Raises UserError if the user requested one."""
    available = len(list_checkpoints(directory))
    numbers = grid.get(AVERAGE, ())
    kept = tuple(number for number in numbers if number <= available)
    if numbers not in (kept, _USUAL[AVERAGE]):
        first = min(set(numbers) - set(kept))
        raise UserError(
            f"`tune`: average_checkpoints={first}, but {directory} has {available} checkpoints; pass a smaller number"
        )
    return {name: values for name, values in {**grid, AVERAGE: kept}.items() if values}


def _check(problem: Problem, settings: DecodeHParams) -> None:
    if not problem.has_inputs:
        raise UserError(f"`tune`: '{problem.name}' has no outputs to score")
    if make_metric(problem.metric, **options_for(problem.metric, problem)).resampled() is None:
        raise UserError(f"`tune`: the metric '{problem.metric}' cannot be resampled, which the paired test requires")
    usual = DecodeHParams()
    for name in ("sampling_method", "coverage_penalty", "scorers", "diverse_beam_groups"):
        if (value := getattr(settings, name)) != getattr(usual, name):
            raise UserError(
                f"`tune` reranks hypotheses only by log-probability and length penalty, so it cannot be combined with "
                f"{name}={value}"
            )


def _stored(folder: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the content of tune.json if it is for the same checkpoint, settings, text and grid."""
    try:
        content = json.loads((folder / TUNE).read_text(encoding="utf-8"))
        same = content["format"] == _FORMAT and all(content[name] == value for name, value in key.items())
        return content if same and {"rows", "metric", "better"} <= set(content) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _search(request: EvalRequest, grid: Grid, earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Decodes, runs the tests and chooses the best settings. Returns the results for tune.json."""
    problem, current = request.source.run_dir.problem, score(request)
    with tensorflow_job():
        from t2t_lite.evaluation.tuning_search import tuning_candidates

        candidates = list(tuning_candidates(request, current.inputs, grid))

    def compared(*outputs: list[str]) -> list[dict[str, Any]]:
        systems = {str(number): lines for number, lines in enumerate((current.hypotheses, *outputs))}
        references = references_taken(problem.metric, current.references)
        options: dict[str, Any] = {**options_for(problem.metric, problem)}
        comparisons = compare_by_both_tests(problem.metric, systems, *references, **options)
        return [{name: value for name, value in each._asdict().items() if name != "name"} for each in comparisons]

    first, *others = compared(*(each.hypotheses for each in candidates))
    p_values = [each["p_randomisation"] for each in others]
    rows = [
        {AVERAGE: each.average_checkpoints, BEAM_SIZE: each.beam_size, ALPHA: each.alpha, **figures, "p_corrected": p}
        for each, figures, p in zip(candidates, others, holm(p_values), strict=True)
    ]
    settings = {BEAM_SIZE: request.source.settings.beam_size, ALPHA: request.source.settings.alpha}
    content = {
        "run": str(request.source.run_dir.path.absolute()),
        "split": request.split,
        "checkpoint": request.source.selection.path.name,
        "metric": problem.metric,
        "higher_is_better": METRICS.fact(problem.metric, "higher_is_better", True),
        "current": {**settings, **first, "p_corrected": None},
        "rows": rows,
    }
    decoded, chosen = [], {}
    for row in _to_confirm(content, earlier):
        its_settings = {name: row[name] for name in settings}
        real = dataclasses.replace(
            request,
            source=dataclasses.replace(request.source, settings=request.source.settings.replace(**its_settings)),
        )
        _, figures = compared(score(real).hypotheses)
        of_others = [other["p_randomisation"] for other in rows if other is not row]
        corrected = holm([figures["p_randomisation"], *of_others])[0]
        decoded.append({**its_settings, **figures, "p_corrected": corrected})
        if _is_better(decoded[-1], content):
            chosen = decoded[-1]
            break
    # The averages' rows with the current alpha come from real searches, so they need no confirmation.
    averages = [row for row in rows if row[AVERAGE] is not None and row[ALPHA] == request.source.settings.alpha]
    return {
        **content,
        "decoded": decoded,
        "better": {
            name: chosen[name] for name, value in settings.items() if name in grid and chosen.get(name, value) != value
        },
        "better_average": best_row(averages, content),
    }


def _to_confirm(content: Mapping[str, Any], earlier: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows to confirm by real searches, in order: the best row, then some closer to the current alpha.

    The farther an alpha is from that of the search, the less its reranked rows say about a real search. The previously
    tuned settings come last if they are significantly better, so that they are kept if no other row is confirmed.
    """
    rows = [row for row in content["rows"] if row[AVERAGE] is None and _is_better(row, content)]
    best = best_row(rows, content)
    if best is None:
        return []
    current = content["current"][ALPHA]
    low, high = sorted((current, best[ALPHA]))
    nearer = [row for row in rows if row[BEAM_SIZE] == best[BEAM_SIZE] and low <= row[ALPHA] <= high]
    nearer.sort(key=lambda row: abs(row[ALPHA] - current))
    places = [len(nearer) - 1]
    while places[-1] > 0 and len(places) < _MOST_DECODED:
        places.append(places[-1] // 2)
    chosen = [nearer[place] for place in places]
    known = {**content["current"], **earlier}
    is_known = [row for row in rows if all(row[name] == known[name] for name in (BEAM_SIZE, ALPHA))]
    return chosen + [row for row in is_known if row not in chosen]


def best_row(rows: Sequence[dict[str, Any]], content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the best of the rows that are significantly better than the current settings of `content`, or None."""
    sign = 1 if content["higher_is_better"] else -1
    return max((row for row in rows if _is_better(row, content)), key=lambda row: sign * row["score"], default=None)


def _is_better(row: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    difference = row["score"] - content["current"]["score"]
    return row["p_corrected"] < SIGNIFICANT and (difference > 0) == content["higher_is_better"]
