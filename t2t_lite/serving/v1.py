"""The server's own API, /v1, with all features of the search."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from t2t_lite.errors import UserError
from t2t_lite.serving import schemas
from t2t_lite.serving.answering import Answering, without_delay
from t2t_lite.serving.models import AUTO, ModelSet
from t2t_lite.serving.monitoring import Record
from t2t_lite.serving.sentences import SplitText, split_sentences
from t2t_lite.serving.served_model import Attention, Result, ServedModel, Task, Weights
from t2t_lite.trees.drawing import draw_svg
from t2t_lite.trees.tokenizer import split_as_treebank
from t2t_lite.trees.tree import parse_brackets
from t2t_lite.visualization.attention_data import map_json, statistics_json
from t2t_lite.visualization.attention_map import AttentionMap
from t2t_lite.visualization.head_statistics import head_statistics

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error} for status in (400, 401, 403, 413, 429, 503, 504)
}
_DIGITS = 7  # decimal places of scores and attention weights
_MAX_DRAWN = 20  # maximum number of drawn trees per request
_LINE_ENDS = ("\n", "\r")


def router(answering: Answering) -> APIRouter:
    """Returns the endpoints."""
    api = APIRouter(prefix="/v1", tags=["v1"], dependencies=[Depends(answering.check_header)], responses=_ERRORS)
    models = answering.models

    @api.post("/translate", response_model=schemas.Answer, response_model_exclude_none=True)
    async def translate(request: Request, asked: schemas.TranslateRequest) -> JSONResponse:
        """Translates lines: N lines in, N results out. With `split`, the lines are the sentences of a text."""
        model = _chosen(models, asked)
        if model.writes_trees:
            raise UserError(f"{model.name} is a parser; use /v1/parse")
        text = await _split(asked, model)
        _check(answering, asked, text.sentences)
        prefixes = _prefixes(asked, text.sentences)
        return await _answer(answering, request, model, asked, text, prefixes, asked.phrases)

    @api.post("/parse", response_model=schemas.Answer, response_model_exclude_none=True)
    async def parse(request: Request, asked: schemas.ParseRequest) -> JSONResponse:
        """Parses lines. Every tree is well-formed and contains exactly the words of its line."""
        model = models.named(asked.model) if asked.model else models.parser()
        if not model.writes_trees:
            raise UserError(f"{model.name} is not a parser; use /v1/translate")
        text = await _split(asked, model)
        _check(answering, asked, text.sentences)
        if asked.tokenizer == "treebank":
            text = await run_in_threadpool(
                lambda: text._replace(sentences=[" ".join(split_as_treebank(line)) for line in text.sentences])
            )
        return await _answer(answering, request, model, asked, text)

    @api.post("/attention", response_model=schemas.MapAnswer, response_model_exclude_none=True)
    async def attention(request: Request, asked: schemas.MapRequest) -> JSONResponse:
        """Returns the attention weights for a line and its output, by token and by word, with measures of each head."""
        if any(end in text for text in (asked.inputs, asked.targets) for end in _LINE_ENDS):
            raise HTTPException(400, "inputs and targets must be one line each")
        if not asked.inputs.strip() or not asked.targets.strip():
            raise HTTPException(400, "inputs and targets must not be blank")
        model = models.named(asked.model) if asked.model else models.only()
        return await _map(answering, request, model, asked)

    @api.get("/models", responses={200: {"content": {"application/json": {}}}})
    async def all_models() -> JSONResponse:
        """Lists the models with their languages, engines, and defaults of the settings that requests may change."""
        return JSONResponse({"models": [model.description() for model in models.all]})

    return api


async def _split(asked: schemas.Request, model: ServedModel) -> SplitText:
    """Returns the lines of a request, or with `split`, the sentences of its text.

    Raises HTTPException if `split` is set and the inputs are a list.
    """
    if not asked.split:
        return SplitText(asked.lines, [])
    if not isinstance(asked.inputs, str):
        raise HTTPException(400, "with split, inputs must be a single text")
    return await without_delay(len(asked.inputs), split_sentences, asked.inputs, *model.splitting)


def _check(answering: Answering, asked: schemas.Request, lines: Sequence[str]) -> None:
    """Raises HTTPException if a request has too many lines (or too many to draw), or a line contains line breaks."""
    answering.check_lines(len(lines))
    if isinstance(asked, schemas.ParseRequest) and asked.drawing and not asked.split and len(lines) > _MAX_DRAWN:
        raise HTTPException(400, f"drawing: at most {_MAX_DRAWN} lines can be drawn")
    for number, line in enumerate(lines, start=1):
        if any(end in line for end in _LINE_ENDS):
            raise HTTPException(400, f"inputs: line {number} contains line breaks; send each line separately")


def _chosen(models: ModelSet, asked: schemas.TranslateRequest) -> ServedModel:
    """Returns the model for a request."""
    if asked.model:
        return models.named(asked.model)
    if asked.target:
        return models.translation(asked.source or AUTO, asked.target, " ".join(asked.lines[:20])[:2000])[0]
    return models.only()


def _prefixes(asked: schemas.TranslateRequest, lines: Sequence[str]) -> list[str] | None:
    """Returns the prefixes of a request. Raises UserError unless the prefixes and phrases match the lines in number."""
    prefixes = [asked.prefixes] if isinstance(asked.prefixes, str) else asked.prefixes
    for name, given in (("prefixes", prefixes), ("phrases", asked.phrases)):
        if given is not None and len(given) != len(lines):
            raise UserError(f"there are {len(lines)} inputs but {len(given)} {name}; send one entry per input")
    return prefixes


def _task(model: ServedModel, asked: schemas.Request) -> Task:
    """Returns the task for a request."""
    task = Task(model.settings(asked.settings, asked.num_hypotheses), asked.num_hypotheses, asked.scores)
    if isinstance(asked, schemas.TranslateRequest):
        task = task._replace(
            with_prefixes=asked.prefixes is not None,
            with_phrases=asked.phrases is not None,
            alignments=asked.alignments,
            attention=Attention(asked.attention.kind, asked.attention.layer) if asked.attention else None,
        )
    return task


async def _answer(
    answering: Answering,
    request: Request,
    model: ServedModel,
    asked: schemas.Request,
    split: SplitText,
    prefixes: Sequence[str] | None = None,
    phrases: Sequence[Sequence[str]] | None = None,
) -> JSONResponse:
    """Runs a model on a request and returns its answer."""
    lines = split.sentences
    texts = await without_delay(sum(map(len, lines)), model.texts, lines, prefixes, phrases)
    results = await answering.results(request, model, _task(model, asked), texts)
    job = Record.of(request).job
    assert job is not None
    answers = [_result(result, asked.scores) for result in results]
    if asked.split or isinstance(asked, schemas.ParseRequest):
        for result, line in zip(answers, lines, strict=True):
            result["inputs"] = line
    if isinstance(asked, schemas.ParseRequest) and asked.drawing and len(lines) <= _MAX_DRAWN:
        await run_in_threadpool(_draw, answers)
    content: dict[str, Any] = {
        "model": model.name,
        "results": answers,
        "queue_seconds": round(job.queue_seconds, 4),
        "model_seconds": round(job.model_seconds, 4),
    }
    if asked.split:
        content["between"] = split.between
    return JSONResponse(content)


def _draw(results: list[dict[str, Any]]) -> None:
    """Adds SVG pictures of the best trees to the results."""
    for result in results:
        if tree := result["hypotheses"][0]["text"]:
            result["drawing"] = draw_svg([("", parse_brackets(tree)[0])])


async def _map(answering: Answering, request: Request, model: ServedModel, asked: schemas.MapRequest) -> JSONResponse:
    """Computes the attention weights for a line and its output, and returns the answer."""
    task = Task(model.settings({}), attention=Attention(asked.kind, asked.layer, as_map=True), is_given=True)
    texts = model.given_text(asked.inputs, asked.targets)
    (result,) = await answering.results(request, model, task, texts)
    attention = result.attention
    assert isinstance(attention, AttentionMap)

    def answer() -> JSONResponse:
        statistics = statistics_json(head_statistics([attention]))
        return JSONResponse({"model": model.name, "map": map_json(attention, _DIGITS), "statistics": statistics})

    return await run_in_threadpool(answer)  # it formats hundreds of thousands of numbers


def _result(result: Result, scores: bool) -> dict[str, Any]:
    """Returns the part of the answer about one line."""
    hypotheses: list[dict[str, Any]] = [{"text": each.text} for each in result.hypotheses]
    for entry, each in zip(hypotheses, result.hypotheses):
        if scores:
            entry |= {"score": round(each.score, _DIGITS), "log_prob": round(each.log_prob, _DIGITS)}
        if each.is_cut:
            entry["cut"] = True
    for entry, alignment in zip(hypotheses, result.alignments):
        entry["alignment"] = alignment
    content: dict[str, Any] = {"hypotheses": hypotheses}
    if isinstance(result.attention, Weights):
        content["attention"] = {
            "queries": result.attention.queries,
            "keys": result.attention.keys,
            "weights": result.attention.weights.round(_DIGITS).tolist(),
        }
    return content
