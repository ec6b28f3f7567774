"""Scores a split: answers from what is stored in the run directory, or decodes and stores."""

import dataclasses
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from t2t_lite.data.problem import Problem
from t2t_lite.evaluation.buckets import by_frequency, by_length
from t2t_lite.evaluation.examples import EXAMPLES, examples_text, read_examples
from t2t_lite.evaluation.figures import (
    ONLY_TREES,
    Figure,
    figure_of_outputs,
    figures_of_tokens,
    requested_metrics,
    usual_metrics,
)
from t2t_lite.evaluation.report import report_of
from t2t_lite.evaluation.request import Request
from t2t_lite.evaluation.split_scores import (
    HYPOTHESES,
    INPUTS,
    REPORT,
    SCORES,
    TREES_ONLY,
    SplitScores,
    changed_texts,
    content_of,
    read_scores,
    reference_names,
    write_lines,
)
from t2t_lite.files import sha256_of, write_text, written_folder
from t2t_lite.plugin_code import code_digest
from t2t_lite.quiet import import_tensorflow, settings_restored
from t2t_lite.registry import METRICS
from t2t_lite.scoring.metric import TOKENS, make_metric, options_for, score_of
from t2t_lite.scoring.token_metrics import TokenSums


def score(
    request: Request, metrics: Sequence[str], again: bool, warn: Callable[[str], None], xla_compile: bool | None
) -> SplitScores:
    """Returns the scores of a request; for the arguments see `t2t_lite.score_split`."""
    problem = request.run_dir.problem
    wanted = list(dict.fromkeys([*usual_metrics(problem), *requested_metrics(metrics, problem)]))
    stored = None if again else stored_scores(request)
    if stored is None:
        for name in [] if again else changed_texts(request.folder):
            warn(f"{request.folder / name} was changed after it was scored: the split is decoded again")
        return _decoded(request, wanted, warn, xla_compile)
    known = dict.fromkeys(figure.metric for figure in stored.figures if figure.metric)
    same_references = [each["sha256"] for each in stored.content["references"]] == request.reference_digests()
    stale = _stale(stored, [*known, *METRICS.having("needs", TOKENS)])
    if same_references and not stale and set(wanted) <= known.keys():
        return stored
    kept = [metric for metric in known if same_references or metric in METRICS]
    holding = known.keys() - stale if same_references else set()
    return _rescored(request, stored, list(dict.fromkeys([*wanted, *kept])), holding)


def _stale(stored: SplitScores, metrics: Iterable[str]) -> set[str]:
    """Returns the metrics whose code was changed after it had computed what is stored.

    What a plug-in that is not loaded has computed stays: nobody asks for it, and it cannot be computed again.
    """
    scored_by = stored.content.get("scored_by", {})
    return {
        metric
        for metric in metrics
        if metric in METRICS and code_digest([(METRICS, metric)]) != scored_by.get(metric, "")
    }


def stored_scores(request: Request) -> SplitScores | None:
    """Returns what is stored of the same checkpoint, settings and texts; None if there is nothing."""
    stored = read_scores(request.folder, request.run_dir.path, request.selection.path)
    return stored if stored and stored.content["decoded_by"] == request.decoded_by() else None


def _decoded(
    request: Request, metrics: Sequence[str], warn: Callable[[str], None], xla_compile: bool | None
) -> SplitScores:
    """Decodes, scores and stores."""
    inputs, references = request.texts()
    with settings_restored():
        import_tensorflow()
        from t2t_lite.evaluation.decoding import decode
        from t2t_lite.evaluation.picked_examples import examples_of

        decoded = decode(request, inputs, warn, xla_compile)
    problem = request.run_dir.problem
    figures = _figures(problem, metrics, decoded.hypotheses, decoded.only_trees, references)
    figures += _figures_of_tokens(problem, decoded.sums, references)
    tables = {
        "by_length": _by_length(problem, inputs, decoded.hypotheses, references),
        "by_frequency": None
        if decoded.training_words is None
        else by_frequency(decoded.hypotheses, references[0], decoded.training_words),
    }
    content = content_of(request, decoded.members, decoded.sums, len(inputs), decoded.seconds, figures, tables)
    texts = {INPUTS: inputs, HYPOTHESES: decoded.hypotheses}
    if decoded.only_trees:
        texts[TREES_ONLY] = decoded.only_trees
    examples = None
    try:
        examples = examples_of(problem, decoded.translator, inputs, decoded.hypotheses, references[0])
    except Exception as error:  # of any metric or model: the outputs, which took long, must not be lost
        warn(f"the worst and best lines are not kept ({type(error).__name__}: {error})")
    return _stored(request, content, texts, references, examples, decoded_now=True)


def _rescored(request: Request, stored: SplitScores, metrics: Sequence[str], known: Collection[str]) -> SplitScores:
    """Computes the metrics but those whose stored figures are `known` to hold, and stores them all."""
    inputs, references = request.texts()
    texts = {INPUTS: inputs, HYPOTHESES: stored.hypotheses}
    if stored.only_trees:
        texts[TREES_ONLY] = stored.only_trees
    missing = [metric for metric in metrics if metric not in known]
    problem = request.run_dir.problem
    new = _figures(problem, missing, stored.hypotheses, stored.only_trees, references)
    of_outputs = [figure for figure in stored.figures if figure.metric in known] + new
    sums = TokenSums(**stored.content["tokens"])
    figures = [*of_outputs, *_figures_of_tokens(problem, sums, references)]
    tables = {
        "by_length": _by_length(problem, inputs, stored.hypotheses, references),
        "by_frequency": stored.content["by_frequency"],  # of the split's own references
    }
    fresh = content_of(request, stored.members, sums, len(inputs), stored.content["seconds"], figures, tables)
    return _stored(request, fresh, texts, references, read_examples(stored.path))


def _by_length(
    problem: Problem, inputs: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> list[dict[str, Any]] | None:
    if not hypotheses:
        return None
    options = options_for(problem.metric, problem)
    if not METRICS.fact(problem.metric, "several_references", False):
        references = references[:1]

    def score(ours: Sequence[str], theirs: Sequence[Sequence[str]]) -> float | None:
        found = score_of(problem.metric, make_metric(problem.metric, **options), ours, *theirs)
        return found if math.isfinite(found) else None

    return by_length(inputs, hypotheses, references, score, has_words=not problem.writes_trees)


def _figures_of_tokens(problem: Problem, sums: TokenSums, references: Sequence[Sequence[str]]) -> list[Figure]:
    words = None if problem.writes_trees else sum(len(line.split()) for line in references[0])
    return figures_of_tokens(sums, words, len(references[0]))


def _figures(
    problem: Problem,
    metrics: Sequence[str],
    hypotheses: Sequence[str],
    only_trees: Sequence[str],
    references: Sequence[Sequence[str]],
) -> list[Figure]:
    found = []
    for metric in metrics:
        found.append(figure_of_outputs(metric, problem, hypotheses, references))
        if only_trees:
            found.append(figure_of_outputs(metric, problem, only_trees, references, ONLY_TREES))
    return found


def _stored(
    request: Request,
    content: Mapping[str, Any],
    texts: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    examples: Mapping[str, Any] | None,
    decoded_now: bool = False,
) -> SplitScores:
    """Writes the folder and returns what is in it."""
    with written_folder(request.folder, "`output_dir`") as folder:
        for name, lines in {**texts, **dict(zip(reference_names(len(references)), references, strict=True))}.items():
            write_lines(folder / name, lines)
        metrics = {figure["metric"] for figure in content["figures"]} - {""} | {*METRICS.having("needs", TOKENS)}
        codes = {metric: code_digest([(METRICS, metric)]) for metric in sorted(metrics)}
        content = {
            **content,
            "scored_by": {metric: code for metric, code in codes.items() if code},
            "texts": {path.name: sha256_of(path) for path in sorted(folder.iterdir())},
        }
        write_text(folder / SCORES, json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
        if examples:
            write_text(folder / EXAMPLES, examples_text(examples))
        written = read_scores(folder, request.run_dir.path, request.selection.path, decoded_now)
        assert written is not None
        write_text(folder / REPORT, report_of(written))
    return dataclasses.replace(written, path=request.folder)
