"""The server's own API, /v1, with all features of the search."""

import itertools
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from t2t_lite.errors import UserError
from t2t_lite.serving import schemas
from t2t_lite.serving.answering import Answering, without_delay
from t2t_lite.serving.models import AUTO
from t2t_lite.serving.monitoring import Record
from t2t_lite.serving.sentences import SplitText, split_sentences
from t2t_lite.serving.served_model import Attention, Result, ServedModel, Task, Weights
from t2t_lite.trees.drawing import draw_svg
from t2t_lite.trees.tokenizer import split_as_treebank
from t2t_lite.trees.tree import parse_brackets
from t2t_lite.visualization.attention_map import AttentionMap, head_statistics, map_json, statistics_json

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error} for status in (400, 401, 403, 413, 429, 503, 504)
}
_DIGITS = 7  # decimal places of scores and attention weights
_MAX_DRAWN = 20  # maximum number of drawn trees per request


def router(answering: Answering) -> APIRouter:
    """Returns the endpoints."""
    api = APIRouter(prefix="/v1", tags=["v1"], dependencies=[Depends(answering.check_header)], responses=_ERRORS)
    models = answering.models

    @api.post("/translate", response_model=schemas.Answer, response_model_exclude_none=True)
    async def translate(request: Request, asked: schemas.TranslateRequest) -> JSONResponse:
        """Translates lines: N lines in, N results out. With `split`, the lines are the sentences of a text."""
        if asked.target and not asked.model:
            model, _ = models.translation(asked.source or AUTO, asked.target, " ".join(asked.lines[:20])[:2000])
        else:
            model = models.only(asked.model)
        if model.writes_trees:
            raise UserError(f"{model.name} is a parser; use /v1/parse")
        text = await _split(answering, asked, model)
        prefixes = _prefixes(asked, text.sentences)
        attention = asked.attention and Attention(asked.attention.kind, asked.attention.layer)
        wanted = {"with_prefixes": prefixes is not None, "alignments": asked.alignments, "attention": attention}
        given = prefixes, asked.phrases, dict(asked.terms)
        return await _answer(answering, request, model, asked, text, *given, **wanted)

    @api.post("/parse", response_model=schemas.Answer, response_model_exclude_none=True)
    async def parse(request: Request, asked: schemas.ParseRequest) -> JSONResponse:
        """Parses lines. Every tree is well-formed and contains exactly the words of its line."""
        model = models.parser(asked.model)
        if not model.writes_trees:
            raise UserError(f"{model.name} is not a parser; use /v1/translate")
        text = await _split(answering, asked, model)
        if asked.tokenizer == "treebank":
            text = await run_in_threadpool(
                lambda: text._replace(sentences=[" ".join(split_as_treebank(line)) for line in text.sentences])
            )
        return await _answer(answering, request, model, asked, text)

    @api.post("/attention", response_model=schemas.MapAnswer, response_model_exclude_none=True)
    async def attention(request: Request, asked: schemas.MapRequest) -> JSONResponse:
        """Returns the attention weights for a line and its output, by token and by word, with measures of each head."""
        return await _map(answering, request, asked)

    @api.get("/models", responses={200: {"content": {"application/json": {}}}})
    async def all_models() -> JSONResponse:
        """Lists the models with their languages, engines, and defaults of the settings that requests may change."""
        return JSONResponse({"models": [model.description() for model in models.all]})

    return api


def _prefixes(asked: schemas.TranslateRequest, lines: Sequence[str]) -> list[str] | None:
    """Returns the prefixes of a request. Raises UserError unless the prefixes and phrases match the lines in number."""
    prefixes = [asked.prefixes] if isinstance(asked.prefixes, str) else asked.prefixes
    for name, given in (("prefixes", prefixes), ("phrases", asked.phrases)):
        if given is not None and len(given) != len(lines):
            raise UserError(f"there are {len(lines)} inputs but {len(given)} {name}; send one entry per input")
    return prefixes


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


async def _split(answering: Answering, asked: schemas.Request, model: ServedModel) -> SplitText:
    """Returns the lines of a request, or with `split`, the sentences of its text.

    Raises HTTPException if there are too many (or too many to draw), a line contains line breaks, or `split` is set and
    the inputs are a list.
    """
    text = SplitText(asked.lines, [])
    if asked.split:
        if not isinstance(asked.inputs, str):
            raise HTTPException(400, "with split, inputs must be a single text")
        text = await without_delay(len(asked.inputs), split_sentences, asked.inputs, *model.splitting)
    answering.check_lines(len(text.sentences))
    if isinstance(asked, schemas.ParseRequest) and asked.drawing and not asked.split and len(asked.lines) > _MAX_DRAWN:
        raise HTTPException(400, f"drawing: at most {_MAX_DRAWN} lines can be drawn")
    for number, line in enumerate(text.sentences, start=1):
        if _has_line_breaks(line):
            raise HTTPException(400, f"inputs: line {number} contains line breaks; send each line separately")
    return text


async def _answer(
    answering: Answering,
    request: Request,
    model: ServedModel,
    asked: schemas.Request,
    split: SplitText,
    *given: Any,  # more arguments of `ServedModel.texts`
    **wanted: Any,  # more fields of the task
) -> JSONResponse:
    texts = await without_delay(sum(map(len, split.sentences)), model.texts, split.sentences, *given)
    task = Task(model.settings(asked.settings, asked.num_hypotheses), asked.num_hypotheses, asked.scores, **wanted)
    results = await answering.results(request, model, task, texts)
    job = Record.of(request).job
    assert job is not None
    answer = schemas.Answer(
        model=model.name,
        results=[_result(result, asked.scores) for result in results],
        queue_seconds=round(job.queue_seconds, 4),
        model_seconds=round(job.model_seconds, 4),
        between=split.between if asked.split else None,
    )
    if asked.split or isinstance(asked, schemas.ParseRequest):
        for result, line in zip(answer.results, split.sentences, strict=True):
            result.inputs = line
    if isinstance(asked, schemas.ParseRequest) and asked.drawing and len(results) <= _MAX_DRAWN:
        await run_in_threadpool(_draw, answer.results)
    return JSONResponse(answer.model_dump(exclude_none=True))


async def _map(answering: Answering, request: Request, asked: schemas.MapRequest) -> JSONResponse:
    if _has_line_breaks(asked.inputs + asked.targets):
        raise HTTPException(400, "inputs and targets must be one line each")
    if not asked.inputs.strip() or not asked.targets.strip():
        raise HTTPException(400, "inputs and targets must not be blank")
    model = answering.models.only(asked.model)
    task = Task(model.settings({}), attention=Attention(asked.kind, asked.layer, as_map=True), is_given=True)
    (result,) = await answering.results(request, model, task, model.given_text(asked.inputs, asked.targets))
    found = result.attention
    assert isinstance(found, AttentionMap)

    def answer() -> JSONResponse:
        statistics = statistics_json(head_statistics([found]))
        return JSONResponse({"model": model.name, "map": map_json(found, _DIGITS), "statistics": statistics})

    return await run_in_threadpool(answer)  # it formats hundreds of thousands of numbers


def _result(result: Result, with_scores: bool) -> schemas.LineResult:
    hypotheses = [
        schemas.Hypothesis(
            text=each.text,
            score=round(each.score, _DIGITS) if with_scores else None,
            log_prob=round(each.log_prob, _DIGITS) if with_scores else None,
            cut=each.is_cut or None,
            alignment=alignment,
        )
        for each, alignment in itertools.zip_longest(result.hypotheses, result.alignments)
    ]
    attention = None
    if isinstance(result.attention, Weights):
        weights, queries, keys = result.attention
        # without validation, which takes long for many weights
        rounded = weights.round(_DIGITS).tolist()
        attention = schemas.Attention.model_construct(queries=queries, keys=keys, weights=rounded)
    return schemas.LineResult(hypotheses=hypotheses, attention=attention, inputs=None, drawing=None)


def _draw(results: Sequence[schemas.LineResult]) -> None:
    for result in results:
        if tree := result.hypotheses[0].text:
            result.drawing = draw_svg([("", parse_brackets(tree)[0])])
