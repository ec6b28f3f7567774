"""The ASGI application, and the page at /, which translates while the user types.

The page's templates and scripts are in `visualization`. It loads nothing from other hosts, and its
Content-Security-Policy forbids that.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi_offline import FastAPIOffline
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

import t2t_lite
from t2t_lite.serving import libretranslate, v1
from t2t_lite.serving.answering import Answering
from t2t_lite.serving.languages import language_name
from t2t_lite.serving.limits import Guard
from t2t_lite.serving.options import ServingOptions
from t2t_lite.serving.served_model import Place
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
_HIDDEN: dict[str, set[str]] = {
    "tensorflow": set(),
    "ctranslate2": {"coverage_penalty", "diverse_beam_groups", "diverse_beam_strength", "only_trees", "random_seed"},
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


def loaded_app(places: Sequence[Place], options: ServingOptions | None = None) -> FastAPI:
    """Returns an application with loaded models, for any ASGI server. Raises UserError if a model is unusable."""
    answering = Answering(places, options or ServingOptions())
    answering.models.load()
    return make_app(answering)


def make_app(answering: Answering) -> FastAPI:
    """Returns the application. Requests that need a model get 503 until all models are loaded."""
    app = FastAPIOffline(
        title="t2t-lite",
        version=t2t_lite.__version__,
        description="Translation and parsing with a Transformer: LibreTranslate's API, and all search options at /v1.",
        redoc_url=None,
        # FastAPI's telemetry would log texts of requests, and takes time even if nothing receives it.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    options, models, metrics = answering.options, answering.models, answering.metrics
    answering.add_error_answers(app)
    libretranslate.add_endpoints(app, answering)
    app.include_router(v1.router(answering))
    add_page(app, answering)

    # For load balancers and monitors.
    @app.get("/health", tags=["monitoring"])
    async def health() -> JSONResponse:
        """Reports that the process is alive."""
        return JSONResponse({"status": "ok"})

    @app.get("/ready", tags=["monitoring"], responses={503: {"description": "the models are being loaded"}})
    async def ready() -> JSONResponse:
        """Reports whether all models are loaded and warm, so that the server can answer requests."""
        return JSONResponse({"status": "ready"}) if models.is_ready else JSONResponse({"status": "loading"}, 503)

    @app.get("/metrics", tags=["monitoring"], response_class=PlainTextResponse)
    def figures() -> Response:
        """Returns metrics in Prometheus' format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(options.cors_origins), allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(Guard, options=options, metrics=metrics)
    metrics.waiting.set_function(lambda: sum(model.batcher.num_waiting for model in models.all))
    return app
