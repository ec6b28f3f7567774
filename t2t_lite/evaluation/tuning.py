"""Tunes search settings on dev, and remembers a choice only if it is significantly better."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.checkpoints.versions import list_checkpoints
from t2t_lite.config import DecodeHParams
from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.evaluation.request import FOLDER, Request, folder_name
from t2t_lite.evaluation.scoring import score
from t2t_lite.evaluation.split_scores import SplitScores
from t2t_lite.evaluation.tuning_grid import ALPHA, AVERAGE, BEAM_SIZE, USUAL, Grid
from t2t_lite.evaluation.tuning_report import tuning_report
from t2t_lite.files import write_text, written_folder
from t2t_lite.quiet import import_tensorflow, settings_restored
from t2t_lite.registry import METRICS
from t2t_lite.scoring.metric import make_metric, options_for
from t2t_lite.scoring.significance import ComparisonByBothTests, compare_by_both_tests, holm
from t2t_lite.tuned_settings import TunedSettings, forget, remember, search_settings, tuned_settings

SIGNIFICANT = 0.05
TUNE, REPORT = "tune.json", "report.md"
_FORMAT = 2
_CURRENT = "current"
_MOST_DECODED = 4  # searches that confirm a choice


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What tuning found.

    Args:
      path: the folder with tune.json and report.md.
      content: everything in tune.json.
      decides: whether the run's defaults are now the better settings, or those of the problem if none are; False: they
        stay as they were, because the search did not start from the run's own settings.
      earlier: the settings that were tuned before, which the grid includes.
      searched_now: whether anything was decoded by this call.
    """

    path: Path
    content: Mapping[str, Any] = dataclasses.field(repr=False, hash=False)
    decides: bool
    earlier: TunedSettings = dataclasses.field(hash=False)
    searched_now: bool

    @property
    def report(self) -> str:
        """The report in Markdown."""
        return tuning_report(self.content, self.decides, self.earlier)


def tune(request: Request, grid: Grid, again: bool, warn: Callable[[str], None], xla_compile: bool | None) -> Tuned:
    """Tries the settings of a grid, and remembers the best if it is significantly better than those of the problem.

    Settings that were tuned before are tried, too. If nothing is significantly better, they are forgotten: the settings
    that are active afterwards are always among those that were compared.

    Args:
      request: the run, with its current checkpoint and settings, on dev. Of the settings in the grid, it has those of
        the problem and not those that were tuned before, so that the same call finds the same.
      grid: the values to try.
      again: whether to search even if the results are stored.
      warn: receives warnings of the search.
      xla_compile: whether to compile the search.

    Raises:
      UserError: if the problem's outputs or the settings cannot be tuned so.
    """
    problem, path = request.run_dir.problem, request.run_dir.path
    _check(problem, request.settings)
    tuned_names = grid.named()
    earlier = tuned_settings(path).only(tuned_names)
    grid = _existing(grid, request).including(earlier.settings)
    names = ",".join(grid.named())
    folder = request.run_dir.path / FOLDER / folder_name("tune", request.selection.path, names)
    key = {"decoded_by": request.decoded_by(), "grid": {name: list(values) for name, values in grid.named().items()}}
    content = None if again else _stored(folder, key)
    searched_now = content is None
    if content is None:
        content = {"format": _FORMAT, **key, **_search(request, grid, earlier.settings, again, warn, xla_compile)}
        with written_folder(folder, "`output_dir`") as partial:
            text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
            write_text(partial / TUNE, f"{text}\n")
    own = search_settings(path, problem.decode_hparams, warn=lambda line: None, ignored=tuned_names)
    decides = request.settings == own
    found = Tuned(folder, content, decides, earlier, searched_now)
    write_text(folder / REPORT, found.report)
    better = content["better"]
    if decides and (better or earlier.settings):
        others = {name: value for name, value in tuned_settings(path).settings.items() if name not in tuned_names}
        about = {"tuned_on": request.split, "report": f"{FOLDER}/{folder.name}/{REPORT}"}
        if better or others:
            checkpoint = request.selection.path.name if better else earlier.checkpoint
            remember(path, TunedSettings({**others, **better}, checkpoint), about)
        else:
            forget(path)
    return found


def _existing(grid: Grid, request: Request) -> Grid:
    """Returns a grid without averages of more checkpoints than there are; those that were asked for must exist."""
    directory = request.run_dir.path
    available = len(list_checkpoints(directory))
    too_many = [number for number in grid.average_checkpoints if number > available]
    if too_many and grid.average_checkpoints != USUAL[AVERAGE]:
        raise UserError(f"`tune`: average_checkpoints={too_many[0]}, but {directory} has {available} checkpoints")
    kept = tuple(number for number in grid.average_checkpoints if number <= available)
    return dataclasses.replace(grid, average_checkpoints=kept)


def _check(problem: Problem, settings: DecodeHParams) -> None:
    if not problem.has_inputs:
        raise UserError(f"`tune`: '{problem.name}' has no outputs to score")
    if make_metric(problem.metric, **options_for(problem.metric, problem)).resampled() is None:
        raise UserError(f"`tune`: the metric '{problem.metric}' cannot be resampled, which the paired test needs")
    usual = DecodeHParams()
    for name in ("sampling_method", "coverage_penalty", "scorers", "diverse_beam_groups"):
        if (value := getattr(settings, name)) != getattr(usual, name):
            raise UserError(
                f"`tune` ranks hypotheses by their length penalty only, and {name}={value} changes the ranks"
            )


def _stored(folder: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the content of tune.json, if it is of the same checkpoint, settings, text and grid."""
    try:
        content = json.loads((folder / TUNE).read_text(encoding="utf-8"))
        same = content["format"] == _FORMAT and all(content[name] == value for name, value in key.items())
        return content if same and {"rows", "metric", "better"} <= set(content) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _search(
    request: Request,
    grid: Grid,
    earlier: Mapping[str, Any],
    again: bool,
    warn: Callable[[str], None],
    xla_compile: bool | None,
) -> dict[str, Any]:
    """Decodes, tests and decides; returns the content of tune.json."""
    current = score(request, (), again, warn, xla_compile)
    inputs = current.inputs
    with settings_restored():
        import_tensorflow()
        from t2t_lite.evaluation.tuning_search import candidates_of

        candidates = list(candidates_of(request, inputs, grid, warn, xla_compile))
    names = [
        f"{number}: {each.beam_size} {each.alpha} {each.average_checkpoints}" for number, each in enumerate(candidates)
    ]
    systems = {_CURRENT: current.hypotheses} | {name: each.hypotheses for name, each in zip(names, candidates)}
    first, *others = _compared(request.run_dir.problem, systems, current)
    corrected = holm([_p(comparison) for comparison in others])
    rows = [
        {AVERAGE: each.average_checkpoints, BEAM_SIZE: each.beam_size, ALPHA: each.alpha, **_figures(comparison, p)}
        for each, comparison, p in zip(candidates, others, corrected, strict=True)
    ]
    content = {
        "run": str(request.run_dir.path.absolute()),
        "split": request.split,
        "checkpoint": request.selection.path.name,
        "metric": request.run_dir.problem.metric,
        "higher_is_better": METRICS.fact(request.run_dir.problem.metric, "higher_is_better", True),
        "current": {BEAM_SIZE: request.settings.beam_size, ALPHA: request.settings.alpha, **_figures(first, None)},
        "rows": rows,
    }
    decoded = []
    for row in _to_confirm(content, earlier):
        decoded.append(_decoded(request, row, current, rows, again, warn, xla_compile))
        if _is_better(decoded[-1], content):
            break
    chosen = decoded[-1] if decoded and _is_better(decoded[-1], content) else {}
    names_tuned = [name for name in (BEAM_SIZE, ALPHA) if name in grid.named()]
    # With the current alpha, the rows of averages are those of real searches.
    averages = [row for row in rows if row[AVERAGE] is not None and row[ALPHA] == request.settings.alpha]
    return {
        **content,
        "decoded": decoded,
        "better": {name: chosen[name] for name in names_tuned if chosen and chosen[name] != content["current"][name]},
        "better_average": best_row(averages, content),
    }


def _to_confirm(content: Mapping[str, Any], earlier: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows to decode for real until one is confirmed: the best, and some nearer to the current alpha.

    The farther an alpha is from that of the search, the less its rows say of a search with it. At last come the
    settings that were tuned before, by name, so that they are not given up for a row that is not confirmed.
    """
    rows = [row for row in content["rows"] if row[AVERAGE] is None]
    best = best_row(rows, content)
    if best is None:
        return []
    current = content["current"][ALPHA]
    nearer = [
        row
        for row in rows
        if row[BEAM_SIZE] == best[BEAM_SIZE]
        and _is_better(row, content)
        and min(current, best[ALPHA]) <= row[ALPHA] <= max(current, best[ALPHA])
    ]
    nearer.sort(key=lambda row: abs(row[ALPHA] - current))
    places = [len(nearer) - 1]
    while places[-1] > 0 and len(places) < _MOST_DECODED:
        places.append(places[-1] // 2)
    chosen = [nearer[place] for place in places]
    known = {**content["current"], **earlier}
    chosen += [
        row for row in rows if all(row[name] == known[name] for name in (BEAM_SIZE, ALPHA)) and row not in chosen
    ]
    return [row for row in chosen if _is_better(row, content)]


def best_row(rows: Sequence[dict[str, Any]], content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the best of the rows that are significantly better than the current settings; None if none is.

    Args:
      rows: rows of tune.json.
      content: the rest of it: "current" and "higher_is_better".
    """
    sign = 1 if content["higher_is_better"] else -1
    return max((row for row in rows if _is_better(row, content)), key=lambda row: sign * row["score"], default=None)


def _is_better(row: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    difference = row["score"] - content["current"]["score"]
    return row["p_corrected"] < SIGNIFICANT and (difference > 0) == content["higher_is_better"]


def _decoded(
    request: Request,
    row: Mapping[str, Any],
    current: SplitScores,
    rows: Sequence[Mapping[str, Any]],
    again: bool,
    warn: Callable[[str], None],
    xla_compile: bool | None,
) -> dict[str, Any]:
    """Decodes with the settings of one of the rows for real; returns these settings and their figures."""
    settings = request.settings.replace(beam_size=row[BEAM_SIZE], alpha=row[ALPHA])
    real = score(dataclasses.replace(request, settings=settings), (), again, warn, xla_compile)
    systems = {_CURRENT: current.hypotheses, "other": real.hypotheses}
    _, comparison = _compared(request.run_dir.problem, systems, current)
    corrected = holm([_p(comparison), *(other["p_randomisation"] for other in rows if other is not row)])[0]
    return {BEAM_SIZE: row[BEAM_SIZE], ALPHA: row[ALPHA], **_figures(comparison, corrected)}


def _compared(problem: Problem, systems: Mapping[str, list[str]], scores: SplitScores) -> list[ComparisonByBothTests]:
    references = scores.references
    if not METRICS.fact(problem.metric, "several_references", False):
        references = references[:1]
    options: dict[str, Any] = {**options_for(problem.metric, problem)}
    return compare_by_both_tests(problem.metric, systems, *references, **options)


def _figures(comparison: ComparisonByBothTests, p_corrected: float | None) -> dict[str, Any]:
    """Returns the figures of a row; `p_corrected` is its p-value by randomisation, corrected for the number of rows."""
    figures = comparison._asdict()
    del figures["name"]
    return {**figures, "p_corrected": p_corrected}


def _p(comparison: ComparisonByBothTests) -> float:
    assert comparison.p_randomisation is not None  # only the first system has none
    return comparison.p_randomisation
