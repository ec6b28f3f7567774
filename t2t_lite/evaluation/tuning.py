"""Tunes search settings on dev, and makes the best ones the run's defaults only if they are significantly better."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from t2t_lite.config import DecodeHParams
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.decoding.translator import Hypothesis, Translator
from t2t_lite.display import LOG
from t2t_lite.errors import UserError, nearest
from t2t_lite.evaluation.evaluate import EvalRequest, score
from t2t_lite.evaluation.stored import FOLDER, REPORT, folder_name, format_interval, format_p_value, table
from t2t_lite.files import as_json, write_text, written_folder
from t2t_lite.metric import figure_label, figure_name, make_metric, options_for, references_taken
from t2t_lite.parsing.parser import Parser
from t2t_lite.registry import METRICS
from t2t_lite.runs.tuned_settings import (
    ALPHA,
    BEAM_SIZE,
    FILE,
    TunedSettings,
    forget,
    remember,
    search_settings,
    tuned_settings,
)
from t2t_lite.scoring.significance import BOOTSTRAP, EXPLANATIONS, RANDOMISATION, TESTS, compare, holm
from t2t_lite.system.tensorflow import tensorflow_job

FORGET = "forget"
TUNE = "tune.json"
Grid: TypeAlias = dict[str, tuple[Any, ...]]  # the values to try; a missing setting keeps its current value
_USUAL: Grid = {ALPHA: tuple(round(0.2 * number, 1) for number in range(11)), BEAM_SIZE: (1, 2, 4, 8)}
_SYNTAX = "write values as alpha=0/0.6/1, or a range with a step as alpha=0:2:0.2"
_MOST = 200  # maximum number of values for a setting
_FORMAT = 3
_SIGNIFICANT = 0.05
# The search uses this instead of an alpha of 0, because the ratio of log-probability to score must give the length.
_INSTEAD_OF_0 = 0.6


def parse_grid(text: str) -> Grid:
    """Parses the value of --tune: settings, with values ("a/b/c" or "first:last:step") or without."""
    found: Grid = {}
    for part in text.split(","):
        name, equals, given = (each.strip() for each in part.partition("="))
        if name not in _USUAL:
            hint = "; write averages with t2t-lite-avg, and evaluate each" if name == "average_checkpoints" else ""
            hint = hint or nearest(name, [*_USUAL, FORGET])
            raise UserError(f"`tune={text}`: '{name}' cannot be tuned{hint}", status=2)
        if name in found:
            raise UserError(f"`tune={text}`: {name} is given twice; give it once", status=2)
        kind = float if name == ALPHA else int
        try:
            if ":" in given:
                first, last, step = (kind(number) for number in given.split(":"))
                if step <= 0 or last < first or (last - first) / step > _MOST:
                    raise ValueError
                number = int((last - first) / step + 1e-9) + 1
                values = tuple(round(first + place * step, 6) for place in range(number))  # 0.1 + 0.2 is 0.3
            else:
                values = tuple(kind(number) for number in given.split("/")) if equals else _USUAL[name]
            if not all((0 if name == ALPHA else 1) <= value < 2**31 for value in values):  # also rejects NaN
                raise ValueError
        except ValueError as error:
            raise UserError(f"`tune={text}`: '{given}' are not values of {name}; {_SYNTAX}", status=2) from error
        found[name] = tuple(sorted(set(values)))
    return {name: found[name] for name in _USUAL if name in found}


class Tuned(NamedTuple):
    """The result of tuning."""

    path: Path  # the folder with tune.json and report.md
    content: Mapping[str, Any]  # everything in tune.json
    earlier: TunedSettings  # the previously tuned settings, which the grid includes
    report: str  # the report in Markdown
    searched_now: bool  # whether this call decoded anything


def tune(request: EvalRequest, grid: Grid) -> Tuned:
    """Tries the settings in a grid, and keeps the best ones if they are significantly better than the problem's.

    Each beam size is searched once, and its hypotheses are reranked for each alpha, which approximates a search with
    that alpha. The best row must also be significantly better in a real search. Previously tuned settings are tried,
    too, and given up if nothing is significantly better, so that the settings in use are always among those compared.

    Args:
      request: for the current checkpoint on dev. For the settings in the grid, it must have the problem's values, not
        previously tuned ones, so that repeated calls give the same result.
      grid: see `parse_grid`.
    """
    problem, path, settings = request.problem, request.source.run_dir.path, request.source.settings
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
    earlier = tuned_settings(path).only(grid)
    tried = {name: tuple(sorted({*values, *earlier.only([name]).settings.values()})) for name, values in grid.items()}
    folder = path / FOLDER / folder_name("tune", request.source.selection.path, ",".join(tried))
    key = {"format": _FORMAT, "decoded_by": request.decoded_by(), "grid": {name: [*tried[name]] for name in tried}}
    content = None
    try:
        stored = {} if request.options.again else json.loads((folder / TUNE).read_text(encoding="utf-8"))
        if all(stored.get(name) == value for name, value in key.items()) and "better" in stored:
            content = stored
    except (OSError, ValueError, AttributeError):
        pass
    searched_now = content is None
    if content is None:
        content = {**key, **_search(request, tried)}
        with written_folder(folder, "`output_dir`") as partial:
            write_text(partial / TUNE, as_json(content) + "\n")
    # The defaults stay as they are if the search did not start from the run's own settings.
    decides = settings == search_settings(path, problem.decode_hparams, warn=lambda line: None, ignored=grid)
    better = content["better"]
    report = _report(content, decides, earlier)
    write_text(folder / REPORT, report)
    if decides and (better or earlier.settings):
        others = {name: value for name, value in tuned_settings(path).settings.items() if name not in grid}
        about = {"tuned_on": request.options.split, "report": f"{FOLDER}/{folder.name}/{REPORT}"}
        if better or others:
            checkpoint = request.source.selection.path.name if better else earlier.checkpoint
            remember(path, TunedSettings({**others, **better}, checkpoint), about)
        else:
            forget(path)
    return Tuned(folder, content, earlier, report, searched_now)


def _search(request: EvalRequest, grid: Grid) -> dict[str, Any]:
    """Decodes, runs the tests and chooses the best settings. Returns the results for tune.json."""
    problem, settings, now = request.problem, request.source.settings, score(request)
    search_alpha = settings.alpha or _INSTEAD_OF_0
    source = dataclasses.replace(request.source, settings=settings.replace(alpha=search_alpha))
    tried, outputs = [], [now.hypotheses]
    with tensorflow_job():
        translator = Translator.of(source, EngineOptions(LOG.warning, request.options.xla_compile))
        decoder = Parser(translator) if problem.writes_trees else translator
        for beam_size in grid.get(BEAM_SIZE, (settings.beam_size,)):
            beams = decoder.n_best(now.inputs, beam_size=beam_size)
            # A beam size of 1 gives one hypothesis per line, so there is nothing to rerank.
            for alpha in sorted({settings.alpha, *grid.get(ALPHA, ())} if beam_size > 1 else {settings.alpha}):
                tried.append({BEAM_SIZE: beam_size, ALPHA: alpha})
                outputs.append([rescored(each, search_alpha, alpha, settings.length_penalty).text for each in beams])

    def compared(outputs: Sequence[list[str]]) -> list[dict[str, Any]]:
        systems = {str(number): lines for number, lines in enumerate(outputs)}
        more: dict[str, Any] = {"tests": tuple(TESTS), **options_for(problem.metric, problem)}
        scores = compare(problem.metric, systems, *references_taken(problem.metric, now.references), **more)
        return [{name: value for name, value in each._asdict().items() if name != "name"} for each in scores]

    first, *others = compared(outputs)
    rows = [
        {**settings, **figures, "p_corrected": p}
        for settings, figures, p in zip(tried, others, holm([each["p_randomisation"] for each in others]), strict=True)
    ]
    current = {BEAM_SIZE: settings.beam_size, ALPHA: settings.alpha, **first, "p_corrected": None}
    higher = METRICS.fact(problem.metric, "higher_is_better", True)
    best, decoded = best_row(rows, current, higher), None
    if best is not None:
        its_settings = {BEAM_SIZE: best[BEAM_SIZE], ALPHA: best[ALPHA]}
        real = dataclasses.replace(request.source, settings=settings.replace(**its_settings))
        _, figures = compared([now.hypotheses, score(dataclasses.replace(request, source=real)).hypotheses])
        of_others = [row["p_randomisation"] for row in rows if row is not best]
        decoded = {**its_settings, **figures, "p_corrected": holm([figures["p_randomisation"], *of_others])[0]}
    chosen = best_row([decoded] if decoded else [], current, higher) or {}
    return {
        "run": str(request.source.run_dir.path.absolute()),
        "split": request.options.split,
        "checkpoint": request.source.selection.path.name,
        "metric": problem.metric,
        "current": current,
        "rows": rows,
        "decoded": decoded,
        "better": {name: chosen[name] for name in grid if name in chosen and chosen[name] != current[name]},
    }


def rescored(beams: Sequence[Hypothesis], search_alpha: float, alpha: float, kind: str = "wu") -> Hypothesis:
    """Returns the best hypothesis of a line for another length penalty.

    The scores are log_prob / length_penalty(length, search_alpha, kind); search_alpha is above 0.
    """

    def score(hypothesis: Hypothesis) -> float:
        if not hypothesis.log_prob or hypothesis.score in (0.0, float("-inf")):
            return hypothesis.score
        length = (hypothesis.log_prob / hypothesis.score) ** (1 / search_alpha)  # the inverse of the penalty
        length = 6 * length - 5 if kind == "wu" else length
        return hypothesis.log_prob / length_penalty(max(1, round(length)), alpha, kind)

    # In a tie, `max` returns the first, so that the order of the search is kept.
    return max(beams, key=score)


def best_row(
    rows: Sequence[dict[str, Any]], current: Mapping[str, Any], higher_is_better: bool
) -> dict[str, Any] | None:
    """Returns the best of the rows that are significantly better than the current settings, or None."""
    sign = 1 if higher_is_better else -1
    better = [row for row in rows if row["p_corrected"] < _SIGNIFICANT and sign * (row["score"] - current["score"]) > 0]
    return max(better, key=lambda row: sign * row["score"], default=None)


def _report(content: Mapping[str, Any], decides: bool, earlier: TunedSettings) -> str:
    current, better, decoded = content["current"], content["better"], content["decoded"]

    def cells(row: Mapping[str, Any], name: str = "") -> list[str]:
        p_values = [format_p_value(row[name]) for name in ("p_randomisation", "p_corrected", "p_bootstrap")]
        interval = format_interval((row["low"], row["high"]))
        return [name, str(row[BEAM_SIZE]), f"{row[ALPHA]:g}", f"{row['score']:.2f}", interval, *p_values]

    label = figure_label(figure_name(content["metric"]))
    titles = ["", BEAM_SIZE, ALPHA, label, "95% interval", "p, randomisation", "p, corrected", "p, bootstrap"]
    rows = [cells(current, "current"), *map(cells, content["rows"])]
    lines = [
        f"# {Path(content['run']).name}: search settings of {content['checkpoint']} on {content['split']}",
        "",
        *table(titles, [*rows, cells(decoded, "best, real search")] if decoded else rows),
        "",
        f"p: the p-value of the difference from the first row, which has the problem's settings. p, randomisation: by "
        f"{EXPLANATIONS[RANDOMISATION]}. p, corrected: the p-value by randomisation, corrected for the "
        f"{len(content['rows'])} rows (Holm 1979); it decides. p, bootstrap: by {EXPLANATIONS[BOOTSTRAP]}.",
        f"Each beam size was searched once, with alpha={current[ALPHA] or _INSTEAD_OF_0:g}. Its hypotheses were "
        f"reranked for every other alpha, which approximates a search with that alpha.",
        "",
    ]
    if earlier.settings and (earlier.settings, earlier.checkpoint) != (better, content["checkpoint"]):
        checkpoint = earlier.checkpoint or "an unknown checkpoint"
        other = "" if checkpoint == content["checkpoint"] else f", not {content['checkpoint']}"
        then = "is replaced" if better else "is no longer used"
        if not decides:
            then = f"stays the run's default, in {FILE}"
        elif better == earlier.settings:
            then = "is the best again"
        lines += [f"{earlier} was tuned earlier with {checkpoint}{other}. It is among the rows and {then}.", ""]
    if better:
        values = ",".join(f"{name}={value:g}" for name, value in better.items())
        kept = f"and now the run's defaults, in {FILE}" if decides else "but not remembered, because decode_hparams"
        then = kept if decides else f"{kept} changed the settings used for comparison"
        lines.append(f"{values}: significantly better (corrected p < {_SIGNIFICANT}), {then}.")
    else:
        confirmed = " in a real search" if decoded else ""
        then = "the settings of the problem are used" if earlier.settings and decides else "nothing is changed"
        lines.append(f"No settings are significantly better (corrected p < {_SIGNIFICANT}){confirmed}: {then}.")
    return "\n".join(lines) + "\n"
