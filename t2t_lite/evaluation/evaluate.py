"""Scores a checkpoint on a split: decodes it once, keeps outputs and scores in the run directory, answers from them."""

import collections
import dataclasses
import datetime
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import t2t_lite
from t2t_lite.config import DecodeHParams
from t2t_lite.data.manifest import check_data
from t2t_lite.data.problem import SIDES, Problem
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.loading import ModelSource, open_model
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.translator import Translator
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.evaluation import stored
from t2t_lite.evaluation.examples import EXAMPLES, examples_text, make_examples, read_examples
from t2t_lite.evaluation.options import EvalOptions
from t2t_lite.evaluation.stored import NOTE, Figure, SplitScores
from t2t_lite.files import as_json, file_sha256, split_paths, write_text, written_folder
from t2t_lite.metric import (
    TOKENS,
    check_language,
    compute_score,
    figure_label,
    figure_name,
    knows_language,
    make_metric,
    metric_named,
    metric_needs,
    options_for,
    references_taken,
    with_companions,
)
from t2t_lite.plugins import code_digest
from t2t_lite.registry import METRICS
from t2t_lite.runs.checkpoint_files import checkpoint_step, existing
from t2t_lite.scoring.significance import interval
from t2t_lite.scoring.text_metrics import has_hardly_a_blank
from t2t_lite.scoring.token_metrics import TokenSums, scores_of_tokens
from t2t_lite.system.tensorflow import tensorflow_job
from t2t_lite.training.options import check_search

ONLY_TREES = "_only_trees"  # the name suffix of scores after a search among trees only
PER_WORD = "perplexity_per_word"
# The parts of a signature that may differ between equal scores.
_VERSIONS = re.compile(r"nrefs:\d+\||\|version:[^|]*|(?<=sacremoses)-[\d.]+")
# Settings that a folder's name always contains.
_NAMED = ("beam_size", "alpha")
_MOST_BUCKETS = 6


def evaluate(
    output_dir: str | PathLike, data_dir: str | PathLike | None = None, *, decode: bool = True, **options: Any
) -> SplitScores:
    """Scores a checkpoint on a split, as t2t-lite-eval does, and keeps outputs and scores in the run directory.

    The split is decoded, and the losses on its targets are computed in float32 on one device. A later call with the
    same checkpoint, settings and texts returns the stored scores without TensorFlow. With other metrics or references,
    it scores the stored outputs.

    Args:
      output_dir: the run directory.
      data_dir: the folder with the data of the run's problem; None: the folder that the training used.
      decode: whether to decode the split; otherwise, only the losses are computed.
      options: `EvalOptions`: split ("dev" or "test"), checkpoint_path ("best", "last", "average", "ckpt-2000" or a
        path), decode_hparams (a dict or "name=value,..."), metrics (such as ("chrf", "ter")), references (files),
        again, xla_compile.

    Returns:
      the scores with their intervals and signatures, the outputs and the texts.

    Raises:
      UserError: if the run, the checkpoint or the data is unusable, or a metric does not fit the problem.
    """
    checked = EvalOptions.of_keywords({"data_dir": data_dir, **options}, evaluate)
    for name in () if decode else ("decode_hparams", "metrics", "references"):
        if getattr(checked, name):
            raise UserError(f"`{name}` needs `decode=True`", status=2)
    source = open_model(output_dir, checked.checkpoint_path, checked.decode_hparams if decode else None)
    return score(make_request(source, dataclasses.replace(checked, decode=decode)))


def score_split(output_dir: str | PathLike, split: str = "dev", **options: Any) -> SplitScores:
    """`evaluate`, as it was called up to version 0.10."""
    return evaluate(output_dir, split=split, **options)


EvaluationResult = SplitScores  # the class of results up to version 0.10


@dataclasses.dataclass(frozen=True)
class EvalRequest:
    """What to evaluate: a run with its checkpoint and search settings, on a split."""

    source: ModelSource  # its remarks were shown
    options: EvalOptions
    data_dir: Path  # the folder with the data of the run's problem
    references: tuple[Path, ...]  # the files with the sets of references, the split's own first

    @property
    def problem(self) -> Problem:
        """The problem of the run."""
        return self.source.run_dir.problem

    @property
    def inputs(self) -> Path:
        """The file with the split's inputs, in the direction of the problem."""
        return self.data_dir / self.problem.text_filename(self.options.split, self.problem.in_direction(SIDES)[0])

    @property
    def folder(self) -> Path:
        """The folder in the run directory for the scores, named after split, checkpoint and settings."""
        usual, settings = DecodeHParams(), "losses"
        if self.options.decode:
            values = dataclasses.asdict(self.source.settings)
            named = {name: value for name, value in values.items() if name in _NAMED or value != getattr(usual, name)}
            settings = ",".join(
                f"{name}={value:g}" if type(value) is float else f"{name}={value}" for name, value in named.items()
            )
        name = stored.folder_name(self.options.split, self.source.selection.path, settings)
        return self.source.run_dir.path / stored.FOLDER / name

    def decoded_by(self) -> dict[str, Any]:
        """Returns everything that outputs depend on, as JSON data; equal data means equal outputs."""
        code = stored.code_of_outputs(self.source.run_dir, self.source.settings)
        return {
            "problem": self.problem.name,
            "split": self.options.split,
            "checkpoint": self.source.fingerprint()[0],
            "decode_hparams": dataclasses.asdict(self.source.settings),
            "inputs": file_sha256(self.inputs),
            "targets": file_sha256(self.references[0]),
            **({"plugins": code} if code else {}),  # without plug-ins, the keys are the same as in earlier versions
        }

    def stored(self) -> SplitScores | None:
        """Returns the stored scores of the outputs, whatever their metrics and references; None if there are none."""
        run, checkpoint = self.source.run_dir.path, self.source.selection.path
        found = None if self.options.again else stored.read_scores(self.folder, run, checkpoint)
        if found is None or found.content["decoded_by"] != self.decoded_by():
            return None
        # Versions up to 0.9 computed the losses in the precision of the search.
        is_float32 = "digest" in found.content or self.source.settings.precision == "float32"
        return found if is_float32 else None

    def about(self, metrics: Sequence[str], held: Mapping[str, str]) -> dict[str, Any]:
        """Returns the beginning of scores.json, with the digest of all that outputs and scores depend on.

        `held` is what stored scores depend on that are not computed again, by the names of their metrics.
        """
        codes = {name: code_digest([(METRICS, name)]) for name in (*metrics, *METRICS.having("needs", TOKENS))}
        codes |= held
        for name in metrics:
            signature = make_metric(name, **options_for(name, self.problem)).signature()
            codes[name] = " ".join(filter(None, (codes[name], _VERSIONS.sub("", signature))))
        checkpoint = self.source.selection.path
        depends = {
            "decoded_by": self.decoded_by(),
            "references": [{"file": str(path.absolute()), "sha256": file_sha256(path)} for path in self.references],
            "scored_by": dict(sorted(codes.items())),
        }
        digests = depends | {"references": [each["sha256"] for each in depends["references"]]}
        return {
            "format": stored.FORMAT,
            "version": t2t_lite.__version__,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "run": str(self.source.run_dir.path.absolute()),
            "data_dir": str(self.data_dir.absolute()),
            "checkpoint": {
                "path": str(checkpoint.absolute()),
                "step": checkpoint_step(checkpoint),
                "members": [],
                "chosen": self.source.selection.reason,
            },
            **depends,
            "digest": hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest(),
            **({} if self.options.decode else {"decoded": False}),
        }

    def texts(self) -> tuple[list[str], list[list[str]]]:
        """Returns the inputs and the sets of references."""
        inputs, *references = (list(read_lines(path)) for path in (self.inputs, *self.references))
        for path, lines in zip(self.references, references):
            if len(lines) != len(inputs):
                raise UserError(
                    f"{path} has {len(lines)} lines, but {self.inputs} has {len(inputs)}; line n of one must "
                    f"correspond to line n of the other"
                )
        return inputs, references


def make_request(source: ModelSource, options: EvalOptions) -> EvalRequest:
    """Checks the options for a run that `open_model` has chosen by them, and shows its remarks."""
    run_dir, problem = source.run_dir, source.run_dir.problem
    check_search(options.decode_hparams, problem)
    for line in source.settings_remarks:
        LOG.warning(line)
    references = list(map(Path, options.references))
    for path in references:
        if not path.is_file():
            raise UserError(f"`references`: no such file: {path}")
    for line in source.checkpoint_remarks:
        LOG.warning(line)
    source = dataclasses.replace(source, settings_remarks=(), checkpoint_remarks=())
    if (folder := run_dir.data_dir if options.data_dir is None else Path(options.data_dir)) is None:
        raise UserError(
            f"{run_dir.path} does not record where its data is, because it is older than version 0.5; pass `data_dir`"
        )
    if options.data_dir is None and not folder.is_dir():
        raise UserError(f"the data of {run_dir.path} is no longer in {folder}; pass its folder with `data_dir`")
    targets = folder / problem.text_filename(options.split, problem.in_direction(SIDES)[1])
    request = EvalRequest(source, options, folder, (targets, *references))
    for path in (request.inputs, targets):
        if not path.exists():
            raise UserError(
                f"{path} is missing: `data_dir={folder}` has no complete data for '{source.problem}'; pass the folder "
                f"that t2t-lite-datagen wrote"
            )
    return request


def make_requests(output_dirs: Sequence[str | PathLike], options: EvalOptions) -> list[EvalRequest]:
    """Returns a request for each run or, if the options name several checkpoints of a run, for each of them.

    Raises UserError unless all of them can be compared with the first one.
    """
    checkpoints: list[str | PathLike | None] = [options.checkpoint_path]
    if options.checkpoint_path is not None and not existing(Path(options.checkpoint_path)):
        checkpoints = [*split_paths(str(options.checkpoint_path))]
    if len(checkpoints) > 1 < len(output_dirs):
        raise UserError("several checkpoints can be compared in one run directory only; pass one `output_dir`", 2)
    sources = [open_model(run, checkpoint, options.decode_hparams) for run in output_dirs for checkpoint in checkpoints]
    requests = [make_request(source, options) for source in sources]
    first = requests[0]
    if len(requests) > 1 and not first.problem.has_inputs:
        raise UserError(f"'{first.problem.name}' has no outputs to compare; pass one run directory")
    references = [[file_sha256(path) for path in each.references] for each in requests]
    for number, each in enumerate(requests):
        requested_metrics(options.metrics, each.problem)
        if each.folder in [other.folder for other in requests[:number]]:
            raise UserError(f"{each.source.selection.path} is given twice; a comparison needs different checkpoints")
        if references[number] != references[0]:
            raise UserError(
                f"{each.source.run_dir.path} and {first.source.run_dir.path} have different references for the split "
                f"'{options.split}'; compare runs on the same data, or pass its folder with `data_dir`"
            )
    return requests


class _Outputs(NamedTuple):
    hypotheses: list[str]  # [] if the problem has no outputs, or without decoding
    only_trees: list[str]  # the outputs of a search among well-formed trees only; [] if there was none
    sums: TokenSums
    seconds: float  # time of the search, including compilation
    members: list[int]  # the steps of the averaged checkpoints
    examples: Mapping[str, Any] | None  # see `make_examples`


def score(request: EvalRequest) -> SplitScores:
    """Returns the scores for a request: those that are stored, or new ones of the stored outputs or of a search."""
    options, problem = request.options, request.problem
    wanted = [*usual_metrics(problem), *requested_metrics(options.metrics, problem)] if options.decode else []
    folder, earlier = request.folder, request.stored()
    known = [figure.metric for figure in earlier.figures if figure.metric] if earlier else []
    metrics = list(dict.fromkeys([*wanted, *(name for name in known if _can_score(name, problem))]))
    held: list[Figure] = []
    codes: dict[str, str] = {}
    # Scores that cannot be computed now stay, if they are of the same references.
    if earlier and earlier.reference_digests == [file_sha256(path) for path in request.references]:
        of_tokens = {*map(figure_name, METRICS.having("needs", TOKENS)), PER_WORD}
        for each in earlier.figures:
            is_known = _can_score(each.metric, problem) if each.metric else each.name in of_tokens
            held += [] if is_known else [each]
        by = earlier.content.get("scored_by", {})
        codes = {name: code for name, code in by.items() if not _can_score(name, problem)}
    about = request.about(metrics, codes)
    if earlier and _holds(earlier, about) and set(wanted) <= set(known):
        return earlier
    inputs, references = request.texts()
    if earlier:
        sums, seconds = TokenSums(**earlier.content["tokens"]), earlier.content["seconds"]
        kept = earlier.hypotheses, earlier.only_trees
        outputs = _Outputs(*kept, sums, seconds, earlier.members, read_examples(earlier.path))
    else:
        for name in [] if options.again else stored.changed_texts(folder):
            LOG.warning(f"{folder / name} was changed after it was scored; decoding the split again")
        outputs = _outputs_of_model(request, inputs, references[0])
    about["checkpoint"]["members"] = outputs.members
    figures = _figures(problem, metrics, outputs, inputs, references)
    # The problem's own metric is the first one.
    figures = [*(each for each in figures if each.metric), *held, *(each for each in figures if not each.metric)]
    texts = {stored.INPUTS: inputs, stored.HYPOTHESES: outputs.hypotheses}
    texts |= {stored.TREES_ONLY: outputs.only_trees} if outputs.only_trees else {}
    texts |= dict(zip(stored.reference_names(len(references)), references, strict=True))
    buckets = None
    if outputs.hypotheses:
        scorer = make_metric(problem.metric, **options_for(problem.metric, problem))
        buckets = by_length(
            inputs,
            outputs.hypotheses,
            references_taken(problem.metric, references),
            lambda ours, theirs: compute_score(problem.metric, scorer, ours, *theirs),
            has_words=not (problem.writes_trees or has_hardly_a_blank(references[0])),
        )
    with written_folder(folder, "`output_dir`") as partial:
        for name, lines in texts.items():
            stored.write_lines(partial / name, lines)
        content = {
            **about,
            "lines": len(inputs),
            "seconds": round(outputs.seconds, 3),
            "lines_per_second": round(len(inputs) / outputs.seconds, 3) if outputs.seconds else None,
            "tokens": outputs.sums._asdict(),
            "figures": [dataclasses.asdict(figure) for figure in figures],
            "by_length": buckets,
            "texts": {path.name: file_sha256(path) for path in sorted(partial.iterdir())},
        }
        write_text(partial / stored.SCORES, as_json(content) + "\n")
        if outputs.examples:
            write_text(partial / EXAMPLES, examples_text(outputs.examples))
        run_dir, checkpoint = request.source.run_dir, request.source.selection.path
        written = stored.read_scores(partial, run_dir.path, checkpoint, decoded_now=earlier is None)
        assert written is not None
        write_text(partial / stored.REPORT, stored.evaluation_report(written))
    return dataclasses.replace(written, path=folder, scored_now=True)


def _can_score(metric: str, problem: Problem) -> bool:
    """Returns whether a metric with a stored score can be computed now.

    That of a plug-in that is not loaded cannot, nor paper_bleu of an unknown language, which versions up to 0.10
    computed.
    """
    return metric in METRICS and knows_language(metric, problem)


def _holds(earlier: SplitScores, about: Mapping[str, Any]) -> bool:
    """Returns whether stored scores depend on the same as `about`, see `EvalRequest.about`."""
    if "digest" in earlier.content:
        return earlier.content["digest"] == about["digest"]
    # Earlier versions stored the code of plug-ins apart from the signatures.
    codes = earlier.content.get("scored_by", {})
    signatures = {figure.metric: _VERSIONS.sub("", figure.signature) for figure in earlier.figures if figure.metric}
    by = {name: " ".join(filter(None, (codes.get(name), signatures.get(name)))) for name in about["scored_by"]}
    return by == about["scored_by"] and earlier.reference_digests == [each["sha256"] for each in about["references"]]


def _outputs_of_model(request: EvalRequest, inputs: Sequence[str], references: Sequence[str]) -> _Outputs:
    source, options, problem = request.source, request.options, request.problem
    manifest = check_data(request.data_dir, problem, options.split)
    vocabularies = source.run_dir.inputs_vocabulary, source.run_dir.vocabulary
    for entry, path in zip(problem.in_direction(manifest.vocabularies), vocabularies):
        if file_sha256(path) != entry["sha256"]:
            raise UserError(
                f"the data in {request.data_dir} was made with a vocabulary other than {path}; pass the folder with "
                f"the run's training data as `data_dir`"
            )
    with tensorflow_job():
        from t2t_lite.runs import checkpoints
        from t2t_lite.training import evaluation

        translator = Translator.of(source, EngineOptions(LOG.warning, options.xla_compile))
        # The losses are those of float32, whatever the precision of the search.
        is_float32 = source.settings.precision == "float32"
        model: Any = translator.model if is_float32 else source.models("float32")[0]
        sums = evaluation.split_losses(source.run_dir, request.data_dir, options.split, model)
        members = checkpoints.average_members(source.selection.path)
        decoder = evaluation.make_decoder(problem, translator)
        start, hypotheses, only_trees = time.perf_counter(), [], []
        if problem.has_inputs and options.decode:
            hypotheses = evaluation.decode_lines(decoder, inputs)
        seconds = time.perf_counter() - start if hypotheses else 0.0
        if hypotheses and problem.writes_trees and not source.settings.only_trees:
            only_trees = evaluation.decode_lines(decoder, inputs, only_trees=True)
    examples = None
    try:
        examples = make_examples(problem, translator, inputs, hypotheses, references)
    except Exception as error:  # an error here must not lose the outputs, which took long to decode
        LOG.warning(f"could not select the worst and best lines ({type(error).__name__}: {error})")
    return _Outputs(hypotheses, only_trees, sums, seconds, members, examples)


def _figures(
    problem: Problem,
    metrics: Sequence[str],
    outputs: _Outputs,
    inputs: Sequence[str],
    references: Sequence[Sequence[str]],
) -> list[Figure]:
    """Computes the scores of the outputs, with warnings about what makes one mean less than it seems, and of tokens."""
    figures = []
    for name in metrics:
        figures.append(figure_of_outputs(name, problem, outputs.hypotheses, references))
        if outputs.only_trees:
            figures.append(figure_of_outputs(name, problem, outputs.only_trees, references, ONLY_TREES))
    for figure in figures:
        if figure.note:
            LOG.warning(f"{figure.label}: {figure.note}")
    sums, lines = outputs.sums, len(inputs)
    for name, score in scores_of_tokens(sums).items():
        figures.append(Figure(figure_name(name), figure_label(figure_name(name)), METRICS.summary(name), score))
    if not problem.writes_trees:  # words are meaningless in trees
        words = sum(len(line.split()) for line in references[0])
        score = math.exp(min(sums.plain / (words + lines), 700.0))
        meaning = (
            f"exp of the nats per word: the sum over all {sums.tokens:,.0f} target tokens, including end symbols, "
            f"divided by {words:,} whitespace-separated words plus {lines:,} line ends."
        )
        figures.append(Figure(PER_WORD, "perplexity per word", meaning, score))
    return figures


def usual_metrics(problem: Problem) -> list[str]:
    """Returns the output metrics in every evaluation of a problem: its own and those that accompany it."""
    if not problem.has_inputs:
        return []
    check_language(problem.metric, problem)
    others = METRICS.fact(problem.metric, "evaluated_with", ())
    own = [name for name in others if problem.name in METRICS.fact(name, "evaluated_for", (problem.name,))]
    return with_companions([problem.metric, *(name for name in own if knows_language(name, problem))])


def requested_metrics(names: Iterable[str], problem: Problem) -> list[str]:
    """Returns the requested output metrics, given their own names or their names in evaluations, such as "f1".

    Metrics of tokens are left out, because every evaluation has them.
    """
    metrics = []
    for name in names:
        metric = metric_named(name, "metric")
        needs = metric_needs(metric)
        if needs == TOKENS:
            continue
        if not problem.has_inputs or needs != metric_needs(problem.metric):
            own = f"is scored by {figure_name(problem.metric)}" if problem.has_inputs else "has no outputs to score"
            raise UserError(f"`metric={name}`: '{problem.name}' {own}; omit this metric", status=2)
        check_language(metric, problem)
        metrics.append(metric)
    return with_companions(metrics)


def figure_of_outputs(
    metric: str, problem: Problem, hypotheses: Sequence[str], references: Sequence[Sequence[str]], suffix: str = ""
) -> Figure:
    """Returns the score of outputs by a metric. One that takes a single set of references gets the first.

    `suffix` is ONLY_TREES if the search was among trees only.
    """
    references = references_taken(metric, references)
    options: dict[str, Any] = {**options_for(metric, problem)}
    scorer = make_metric(metric, **options)
    known = interval(metric, hypotheses, *references, **options)
    return Figure(
        figure_name(metric) + suffix,
        figure_label(figure_name(metric)) + (" among well-formed trees only" if suffix else ""),
        " ".join([METRICS.summary(metric), *(f"{NOTE}{each}." for each in scorer.remarks(hypotheses, *references))]),
        compute_score(metric, scorer, hypotheses, *references),
        scorer.signature(len(references)),
        known.low if known else None,
        known.high if known else None,
        metric,
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
        last = "+" if bucket == _MOST_BUCKETS - 1 else f"-{(bucket + 1) * width}"
        ratio = len(" ".join(outputs).split()) / max(1, len(" ".join(theirs[0]).split())) if has_words else None
        row = {"words": f"{bucket * width + 1}{last}", "lines": len(chosen), "score": score(outputs, theirs)}
        bucket_rows.append(row | {"length_ratio": ratio})
    return bucket_rows
