"""The page at /: a form that works without JavaScript, and with it translates as one types.

Its templates and scripts are those of `visualization`. Nothing comes from another host, and the policy allows no more.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter, FastAPI, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from t2t_lite.serving.answering import REFUSALS, Answering, refusal, without_delay
from t2t_lite.serving.metrics import Metrics
from t2t_lite.serving.served_model import Result, ServedModel, Task, Text
from t2t_lite.serving.v1 import MAX_DRAWN, tree_picture
from t2t_lite.trees.tokenizer import split_as_treebank
from t2t_lite.visualization.attention_data import paper_layer
from t2t_lite.visualization.head_statistics import MEASURES
from t2t_lite.visualization.html import render

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without a referrer, the form would have no Origin
    "Cache-Control": "no-store",  # it may have a text
}


def add_page(app: FastAPI, answering: Answering, metrics: Metrics) -> None:
    """Adds the page and its files to an application."""
    app.include_router(_router(answering, metrics))
    app.mount("/static", _Static(packages=[("t2t_lite.visualization", "static")]))


class _Static(StaticFiles):
    """Files that browsers ask for again, so that they fit the page after an update."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(b"cache-control", b"no-cache"), (b"x-content-type-options", b"nosniff")]
            await send(message)

        await super().__call__(scope, receive, with_headers)


def _router(answering: Answering, metrics: Metrics) -> APIRouter:
    api = APIRouter(include_in_schema=False)

    @api.get("/")
    async def page() -> HTMLResponse:
        return _page(answering)

    @api.post("/")
    async def translated(
        request: Request, text: str = Form(""), model: str = Form(""), api_key: str = Form("")
    ) -> HTMLResponse:
        """Answers the form of a browser without JavaScript."""
        asked = {"text": text, "model": model}
        try:
            answering.check_key(request, api_key)
            lines = text.splitlines()
            answering.check_lines(len(lines))
            answering.models.check_ready()
            chosen = answering.models.named(model or answering.models.all[0].name)
            if chosen.writes_trees:
                lines = await run_in_threadpool(lambda: [" ".join(split_as_treebank(line)) for line in lines])
            texts = await without_delay(len(text), chosen.texts, lines)
            name = chosen.name  # another model may take its place
            chosen, results = await answering.results(request, lambda: answering.models.named(name), _wanted(texts))
            outputs = await run_in_threadpool(_outputs, chosen, results)
        except REFUSALS as error:
            status, message, headers = refusal(error, metrics)
            return _page(answering, status, asked | {"error": message}, headers)
        return _page(answering, 200, asked | {"outputs": outputs})

    return api


def _wanted(texts: Sequence[Text]) -> Any:  # noqa: ANN401  see `ModelSet.submit`
    return lambda model: (Task(model.settings({})), texts)


def _outputs(model: ServedModel, results: Sequence[Result]) -> list[dict[str, str]]:
    """Returns the text of each output and, if it is a tree, its picture."""
    texts = [result.hypotheses[0].text for result in results]
    drawn = len(texts) <= MAX_DRAWN and model.writes_trees
    return [{"text": text, "drawing": tree_picture(text) if drawn and text else ""} for text in texts]


def _page(
    answering: Answering,
    status: int = 200,
    asked: dict[str, Any] | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> HTMLResponse:
    """Returns the page, with the answer to a form if there is one."""
    values: dict[str, Any] = {"text": "", "model": "", "outputs": [], "error": ""} | (asked or {})
    models = [_described(model) for model in answering.models.all]
    html = render(
        "page.html",
        models=models,
        measures=[measure._asdict() for measure in MEASURES],
        is_ready=answering.models.is_ready,
        needs_key=answering.keys.are_needed,
        **values,
    )
    # Characters that UTF-8 does not know, which a form can have, are shown as "?".
    return HTMLResponse(html.encode("utf-8", errors="replace"), status, {**_HEADERS, **headers})


def _described(model: ServedModel) -> dict[str, Any]:
    """Returns what the page must know of a model."""
    about = model.description()
    kept = ("name", "kind", "source", "target", "settings", "beam_size", "max_beam_size", "alignments", "attention")
    first = {kind: paper_layer(each["layers"]) for kind, each in about["attention"].items()}
    return {name: about[name] for name in kept} | {"first_layer": first}
