"""The metrics of a server, in Prometheus' format."""

import dataclasses
import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import prometheus_client

from t2t_lite.serving.batching import Job

if TYPE_CHECKING:
    from starlette.requests import Request

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server. `refused` counts refused or disconnected requests by reason."""

    def __init__(self) -> None:
        self._registry = registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        prometheus_client.GCCollector(registry=registry)

        def counter(name: str, about: str, *labels: str) -> prometheus_client.Counter:
            return prometheus_client.Counter(f"t2t_lite_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> prometheus_client.Histogram:
            return prometheus_client.Histogram(f"t2t_lite_{name}", about, labels, buckets=buckets, registry=registry)

        self._requests = counter("requests", "responses by path and status", "path", "status")
        self._seconds = histogram("request_seconds", "time from request to response", _SECONDS, "path")
        self._queue_seconds = histogram("queue_seconds", "time that requests wait for a batch", _SECONDS)
        self._batch_seconds = histogram("batch_seconds", "time that a batch takes", _SECONDS, "model")
        self._batch_texts = histogram("batch_sentences", "sentences in a batch", _TEXTS, "model")
        self._texts = counter("sentences", "sentences searched", "model")
        self._tokens = counter("source_tokens", "source tokens in accepted requests")
        self.refused = counter("refused", "requests refused or abandoned by the client", "reason")
        self._waiting = prometheus_client.Gauge(
            "t2t_lite_waiting_sentences", "sentences in the queues", registry=registry
        )

    def watch_queue(self, num_waiting: Callable[[], int]) -> None:
        """Makes the gauge of waiting sentences read `num_waiting`."""
        self._waiting.set_function(num_waiting)

    def batch(self, model: str, number: int, seconds: float) -> None:
        self._batch_seconds.labels(model).observe(seconds)
        self._batch_texts.labels(model).observe(number)
        self._texts.labels(model).inc(number)

    def answer(self, path: str, status: int, seconds: float, queue_seconds: float | None, tokens: int) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)
        if queue_seconds is not None:
            self._queue_seconds.observe(queue_seconds)
            self._tokens.inc(tokens)

    def text(self) -> bytes:
        return prometheus_client.generate_latest(self._registry)


ACCESS_LOG = logging.getLogger("t2t_lite.access")
_KEY = "t2t_lite.record"


@dataclasses.dataclass
class Record:
    method: str
    path: str  # without the query string
    client: str
    arrived: float = dataclasses.field(default_factory=time.monotonic)  # the arrival time, by time.monotonic()
    status: int = 499  # the status of the response; 499 if the client disconnected first
    model: str = ""
    lines: int = 0  # number of sentences
    tokens: int = 0  # number of source tokens
    job: Job | None = None
    texts: list[str] | None = None  # the texts, if texts are logged

    @classmethod
    def of(cls, request: "Request") -> "Record":
        """Returns the record of a request that passed through `Guard`."""
        return request.scope[_KEY]

    def attach(self, scope: Any) -> None:  # noqa: ANN401  an ASGI scope
        scope[_KEY] = self

    def log(self) -> None:
        """Writes a line to the access log: one JSON object in ASCII, so that no text can imitate another line."""
        entry: dict[str, Any] = {
            "time": round(time.time(), 3),
            "client": self.client,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "seconds": round(time.monotonic() - self.arrived, 4),
        }
        if self.job is not None:
            entry |= {
                "model": self.model,
                "lines": self.lines,
                "tokens": self.tokens,
                "queue_seconds": round(self.job.queue_seconds, 4),
                "model_seconds": round(self.job.model_seconds, 4),
            }
        if self.texts is not None:
            entry["texts"] = self.texts
        ACCESS_LOG.info("%s", json.dumps(entry))
