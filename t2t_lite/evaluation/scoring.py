"""Scores a split: returns the scores stored in the run directory, or decodes the split and stores its scores."""

import collections
import dataclasses
import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import t2t_lite
from t2t_lite.data.problem import Problem
from t2t_lite.evaluation.examples import EXAMPLES, examples_text, make_examples, read_examples
from t2t_lite.evaluation.figures import (
    ONLY_TREES,
    Figure,
    figure_of_outputs,
    figures_of_tokens,
    requested_metrics,
    usual_metrics,
)
from t2t_lite.evaluation.report import evaluation_report
from t2t_lite.evaluation.request import EvalRequest
from t2t_lite.evaluation.split_scores import (
    FORMAT,
    HYPOTHESES,
    INPUTS,
    REPORT,
    SCORES,
    TREES_ONLY,
    SplitScores,
    changed_texts,
    read_scores,
    reference_names,
    write_lines,
)
from t2t_lite.files import as_json, file_sha256, write_text, written_folder
from t2t_lite.metric import TOKENS, compute_score, knows_language, make_metric, options_for, references_taken
from t2t_lite.plugins import code_digest
from t2t_lite.registry import METRICS
from t2t_lite.runs.checkpoint_files import checkpoint_step
from t2t_lite.scoring.sacrebleu_metrics import has_hardly_a_blank
from t2t_lite.scoring.token_metrics import TokenSums
from t2t_lite.system.tensorflow import tensorflow_job

# The parts of a signature that may differ between equal scores.
_VERSIONS = re.compile(r"nrefs:\d+\||\|version:[^|]*|(?<=sacremoses)-[\d.]+")
_MOST_BUCKETS = 6


class _Outputs(NamedTuple):
    hypotheses: list[str]
    only_trees: list[str]
    sums: TokenSums
    seconds: float  # time of the search
    members: list[int]  # the steps of the averaged checkpoints
    examples: Mapping[str, Any] | None  # see `make_examples`


def score(request: EvalRequest, metrics: Sequence[str] = ()) -> SplitScores:
    """Returns the scores for a request. For the arguments see `t2t_lite.score_split`."""
    problem = request.source.run_dir.problem
    wanted = list(dict.fromkeys([*usual_metrics(problem), *requested_metrics(metrics, problem)]))
    stored = None if request.again else stored_scores(request)
    if stored is None:
        for name in [] if request.again else changed_texts(request.folder):
            request.options.warn(f"{request.folder / name} was changed after it was scored; decoding the split again")
        inputs, references = request.texts()
        return _scored(request, inputs, references, _decoded(request, inputs, references[0]), wanted, decoded_now=True)
    known = dict.fromkeys(figure.metric for figure in stored.figures if figure.metric)
    same_references = stored.reference_digests == request.reference_digests()
    stale = _stale(stored, [*known, *METRICS.having("needs", TOKENS)], problem)
    if same_references and not stale and set(wanted) <= known.keys():
        return stored
    holding = known.keys() - stale if same_references else set()
    kept = [metric for metric in known if same_references or metric in METRICS]
    # Versions up to 0.10 scored paper_bleu as if an unknown language were English; only the stored score is kept.
    kept = [metric for metric in kept if metric in holding or knows_language(metric, problem)]
    held = [figure for figure in stored.figures if figure.metric in holding]
    content = stored.content
    outputs = _Outputs(
        stored.hypotheses,
        stored.only_trees,
        TokenSums(**content["tokens"]),
        content["seconds"],
        stored.members,
        read_examples(stored.path),
    )
    return _scored(request, *request.texts(), outputs, list(dict.fromkeys([*wanted, *kept])), held)


def _stale(stored: SplitScores, metrics: Iterable[str], problem: Problem) -> set[str]:
    """Returns the metrics whose code or signature has changed since the stored scores were computed.

    A plug-in that is not loaded does not count: its metrics are not requested and cannot be recomputed.
    """
    scored_by = stored.content.get("scored_by", {})
    changed = {
        metric
        for metric in metrics
        if metric in METRICS and code_digest([(METRICS, metric)]) != scored_by.get(metric, "")
    }
    signatures = {figure.metric: figure.signature for figure in stored.figures if figure.signature}
    for metric in signatures.keys() & {*METRICS} - changed:
        if knows_language(metric, problem):
            now = make_metric(metric, **options_for(metric, problem)).signature()
            changed |= {metric} if _VERSIONS.sub("", now) != _VERSIONS.sub("", signatures[metric]) else set()
    return changed


def stored_scores(request: EvalRequest) -> SplitScores | None:
    stored = read_scores(request.folder, request.source.run_dir.path, request.source.selection.path)
    return stored if stored and stored.content["decoded_by"] == request.decoded_by() else None


def _decoded(request: EvalRequest, inputs: Sequence[str], references: Sequence[str]) -> _Outputs:
    with tensorflow_job():
        from t2t_lite.evaluation.decoding import decode

        decoded = decode(request, inputs)
    examples = None
    try:
        problem = request.source.run_dir.problem
        examples = make_examples(problem, decoded.translator, inputs, decoded.hypotheses, references)
    except Exception as error:  # an error here must not lose the outputs, which took long to decode
        request.options.warn(f"could not select the worst and best lines ({type(error).__name__}: {error})")
    return _Outputs(decoded.hypotheses, decoded.only_trees, decoded.sums, decoded.seconds, decoded.members, examples)


def _scored(
    request: EvalRequest,
    inputs: Sequence[str],
    references: Sequence[Sequence[str]],
    outputs: _Outputs,
    metrics: Iterable[str],
    held: Sequence[Figure] = (),
    decoded_now: bool = False,
) -> SplitScores:
    """Computes the metrics without a valid stored score in `held`, writes the folder and returns its content."""
    problem, figures = request.source.run_dir.problem, [*held]
    for metric in metrics:
        if metric not in {figure.metric for figure in held}:
            figures.append(figure_of_outputs(metric, problem, outputs.hypotheses, references))
            if outputs.only_trees:
                figures.append(figure_of_outputs(metric, problem, outputs.only_trees, references, ONLY_TREES))
    words = None if problem.writes_trees else sum(len(line.split()) for line in references[0])
    for figure in figures:
        if figure.note and figure not in held:
            request.options.warn(f"{figure.label}: {figure.note}")
    figures += figures_of_tokens(outputs.sums, words, len(inputs))
    names = {figure.metric for figure in figures} - {""} | {*METRICS.having("needs", TOKENS)}
    codes = {metric: code_digest([(METRICS, metric)]) for metric in sorted(names)}
    texts = {INPUTS: inputs, HYPOTHESES: outputs.hypotheses}
    texts |= {TREES_ONLY: outputs.only_trees} if outputs.only_trees else {}
    texts |= dict(zip(reference_names(len(references)), references, strict=True))
    with written_folder(request.folder, "`output_dir`") as folder:
        for name, lines in texts.items():
            write_lines(folder / name, lines)
        content = {
            **_about(request, outputs.members),
            "lines": len(inputs),
            "seconds": round(outputs.seconds, 3),
            "lines_per_second": round(len(inputs) / outputs.seconds, 3) if outputs.seconds else None,
            "tokens": outputs.sums._asdict(),
            "figures": [dataclasses.asdict(figure) for figure in figures],
            "by_length": _by_length(problem, inputs, outputs.hypotheses, references),
            "scored_by": {metric: code for metric, code in codes.items() if code},
            "texts": {path.name: file_sha256(path) for path in sorted(folder.iterdir())},
        }
        write_text(folder / SCORES, as_json(content) + "\n")
        if outputs.examples:
            write_text(folder / EXAMPLES, examples_text(outputs.examples))
        written = read_scores(folder, request.source.run_dir.path, request.source.selection.path, decoded_now)
        assert written is not None
        write_text(folder / REPORT, evaluation_report(written))
    return dataclasses.replace(written, path=request.folder)


def _about(request: EvalRequest, members: list[int]) -> dict[str, Any]:
    checkpoint = request.source.selection.path
    paths = (request.text_paths[1], *request.references)
    return {
        "format": FORMAT,
        "version": t2t_lite.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "run": str(request.source.run_dir.path.absolute()),
        "data_dir": str(request.data_dir.absolute()),
        "checkpoint": {
            "path": str(checkpoint.absolute()),
            "step": checkpoint_step(checkpoint),
            "members": members,
            "chosen": request.source.selection.reason,
        },
        "decoded_by": request.decoded_by(),
        "references": [
            {"file": str(path.absolute()), "sha256": digest}
            for path, digest in zip(paths, request.reference_digests(), strict=True)
        ],
    }


def _by_length(
    problem: Problem, inputs: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> list[dict[str, Any]] | None:
    if not hypotheses:
        return None
    scorer = make_metric(problem.metric, **options_for(problem.metric, problem))
    return by_length(
        inputs,
        hypotheses,
        references_taken(problem.metric, references),
        lambda ours, theirs: compute_score(problem.metric, scorer, ours, *theirs),
        has_words=not (problem.writes_trees or has_hardly_a_blank(references[0])),
    )


def by_length(
    inputs: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    score: Callable[[Sequence[str], Sequence[Sequence[str]]], float],
    has_words: bool = True,
) -> list[dict[str, Any]]:
    """Returns a row for each bucket of lines, by the number of whitespace-separated source words: 1-10, 11-20, ...

    Buckets are 5 words wide if no source has more than 20. Rows are {"words", "lines", "score", "length_ratio"}. The
    length ratio is the number of output words divided by the number of words in the first set of references, or None if
    `has_words` is False, as for trees.
    """
    lengths = [len(line.split()) for line in inputs]
    width = 10 if max(lengths, default=0) > 20 else 5
    rows: dict[int, list[int]] = collections.defaultdict(list)
    for row, length in enumerate(lengths):
        rows[min(max(length - 1, 0) // width, _MOST_BUCKETS - 1)].append(row)
    bucket_rows = []
    for bucket, chosen in sorted(rows.items()):
        outputs = [hypotheses[row] for row in chosen]
        theirs = [[lines[row] for row in chosen] for lines in references]
        is_last = bucket == _MOST_BUCKETS - 1
        ratio = len(" ".join(outputs).split()) / max(1, len(" ".join(theirs[0]).split())) if has_words else None
        bucket_rows.append(
            {
                "words": f"{bucket * width + 1}+" if is_last else f"{bucket * width + 1}-{(bucket + 1) * width}",
                "lines": len(chosen),
                "score": score(outputs, theirs),
                "length_ratio": ratio,
            }
        )
    return bucket_rows
