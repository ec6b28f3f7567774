"""The ASGI application."""

from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi_offline import FastAPIOffline
from starlette.middleware.cors import CORSMiddleware

import t2t_lite
from t2t_lite.serving import libretranslate, v1
from t2t_lite.serving.answering import Answering
from t2t_lite.serving.limits import Guard
from t2t_lite.serving.options import ServingOptions
from t2t_lite.serving.page import add_page
from t2t_lite.serving.served_model import Place


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
