"""The page at /. Its form works without JavaScript; with JavaScript, it translates while the user types.

Its templates and scripts are in `visualization`. It loads nothing from other hosts, and its Content-Security-Policy
forbids that.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from fastapi import FastAPI, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from t2t_lite.serving.answering import REFUSALS, Answering, without_delay
from t2t_lite.serving.sentences import SplitText, split_sentences
from t2t_lite.serving.served_model import Result, ServedModel, Task
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
    "Referrer-Policy": "same-origin",  # without a referrer, the form would send no Origin
    "Cache-Control": "no-store",  # the page may contain a user's text
}


def add_page(app: FastAPI, answering: Answering) -> None:
    """Adds the page and its files to an application."""

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return _page(answering)

    @app.post("/", include_in_schema=False)
    async def translated(
        request: Request, text: str = Form(""), model: str = Form(""), api_key: str = Form("")
    ) -> HTMLResponse:
        """Handles the form of a browser without JavaScript."""
        asked = {"text": text, "model": model}
        try:
            answering.check_key(request, api_key)
            answering.models.check_ready()
            chosen = answering.models.named(model or answering.models.all[0].name)
            split = await without_delay(len(text), split_sentences, text, *chosen.splitting)
            lines = split.sentences
            answering.check_lines(len(lines))
            if chosen.writes_trees:
                lines = await run_in_threadpool(lambda: [" ".join(split_as_treebank(line)) for line in lines])
            texts = await without_delay(len(text), chosen.texts, lines)
            results = await answering.results(request, chosen, Task(chosen.settings({})), texts)
            outputs = await run_in_threadpool(_outputs, chosen, split, results)
        except REFUSALS as error:
            status, message, headers = answering.refusal(error)
            return _page(answering, status, asked | {"error": message}, headers)
        return _page(answering, 200, asked | {"outputs": outputs})

    app.mount("/static", _Static(packages=[("t2t_lite.visualization", "static")]))


class _Static(StaticFiles):
    """Static files, which browsers revalidate so that they match the page after an update."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(b"cache-control", b"no-cache"), (b"x-content-type-options", b"nosniff")]
            await send(message)

        await super().__call__(scope, receive, with_headers)


class _Output(NamedTuple):
    """An output to show: a line, a tree with its picture, or a sentence with an incomplete output."""

    text: str = ""
    drawing: str = ""
    cut: str = ""


def _outputs(model: ServedModel, split: SplitText, results: Sequence[Result]) -> list[_Output]:
    """Returns the outputs to show for a text: the lines of its translation, or the tree of each sentence."""
    best = [result.hypotheses[0] for result in results]
    cut = [_Output(cut=sentence) for sentence, each in zip(split.sentences, best) if each.is_cut]
    if model.writes_trees:
        drawn = len(best) <= MAX_DRAWN
        return [_Output(each.text, tree_picture(each.text) if drawn and each.text else "") for each in best] + cut
    lines = split.joined([each.text for each in best]).splitlines()
    return [_Output(line) for line in lines if line.strip()] + cut


def _page(
    answering: Answering,
    status: int = 200,
    asked: dict[str, Any] | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> HTMLResponse:
    """Returns the page with the response to a form, if any."""
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
    # A form can contain characters that UTF-8 cannot encode. They are shown as "?".
    return HTMLResponse(html.encode("utf-8", errors="replace"), status, {**_HEADERS, **headers})


def _described(model: ServedModel) -> dict[str, Any]:
    """Returns the data about a model that the page needs."""
    about = model.description()
    kept = ("name", "kind", "source", "target", "settings", "beam_size", "max_beam_size", "alignments", "attention")
    first = {kind: paper_layer(each["layers"]) for kind, each in about["attention"].items()}
    return {name: about[name] for name in kept} | {"first_layer": first}
