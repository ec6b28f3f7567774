"""The page at /, which translates while the user types.

Its templates and scripts are in `visualization`. It loads nothing from other hosts, and its Content-Security-Policy
forbids that.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from t2t_lite.serving.answering import Answering
from t2t_lite.serving.languages import language_name
from t2t_lite.visualization.attention_map import MEASURES, first_layer
from t2t_lite.visualization.figures import render

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# What the page needs of a model's description.
_SHOWN = ("name", "kind", "source", "target", "beam_size", "max_beam_size", "alignments", "attention")
# Settings that requests may have, but the engine refuses or ignores.
_HIDDEN = {
    "tensorflow": frozenset[str](),
    "ctranslate2": frozenset(
        ("coverage_penalty", "diverse_beam_groups", "diverse_beam_strength", "only_trees", "random_seed")
    ),
}


def add_page(app: FastAPI, answering: Answering) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        models = []
        for about in [model.description() for model in answering.models.all]:
            first = {kind: first_layer(kind, each["layers"]) for kind, each in about["attention"].items()}
            hidden = _HIDDEN[about["engine"]] | (set() if about["kind"] == "parsing" else {"only_trees"})
            settings = {name: usual for name, usual in about["settings"].items() if name not in hidden}
            models.append({name: about[name] for name in _SHOWN} | {"settings": settings, "first_layer": first})
        titles = [_title(each) for each in models]
        for each, title in zip(models, titles):
            each["title"] = title if titles.count(title) == 1 else f"{title} ({each['name']})"
        html = render(
            "page.html",
            models=models,
            measures=[measure._asdict() for measure in MEASURES],
            is_ready=answering.models.is_ready,
            needs_key=answering.keys.are_needed,
        )
        return HTMLResponse(html, headers=_HEADERS)

    app.mount("/static", _Static(packages=[("t2t_lite.visualization", "static")]))


def _title(model: dict[str, Any]) -> str:
    source, target = map(language_name, (model["source"], model["target"]))
    if model["kind"] == "parsing":
        return f"{source}, parsing" if source else f"{model['name']}, parsing"
    return f"{source} to {target}" if source and target else model["name"]


class _Static(StaticFiles):
    """Static files, which browsers revalidate so that they match the page after an update."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(b"cache-control", b"no-cache"), (b"x-content-type-options", b"nosniff")]
            await send(message)

        await super().__call__(scope, receive, with_headers)
