"""The metrics of a server, in Prometheus' format, and its access log."""

import json
import logging
import time
from typing import TYPE_CHECKING, Any

import prometheus_client

from t2t_lite.serving.batching import Job

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

ACCESS_LOG = logging.getLogger("t2t_lite.access")
_KEY = "t2t_lite.record"
_LONGEST_PATH = 200  # in the log

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
        self.waiting = prometheus_client.Gauge(
            "t2t_lite_waiting_sentences", "sentences in the queues", registry=registry
        )

    def batch(self, model: str, number: int, seconds: float) -> None:
        self._batch_seconds.labels(model).observe(seconds)
        self._batch_texts.labels(model).observe(number)
        self._texts.labels(model).inc(number)

    def answered(self, record: "Record", path: str) -> None:
        """Counts a request, and writes a line to the access log. `path` is that of its route."""
        seconds = time.monotonic() - record.arrived
        self._requests.labels(path, str(record.status)).inc()
        self._seconds.labels(path).observe(seconds)
        entry: dict[str, Any] = {"time": round(time.time(), 3), "client": record.client, "method": record.method}
        entry |= {"path": record.path, "status": record.status, "seconds": round(seconds, 4)}
        if (job := record.job) is not None:
            waited, tokens = job.queue_seconds, sum(text.tokens for text in job.items)
            self._queue_seconds.observe(waited)
            self._tokens.inc(tokens)
            entry |= {"model": record.model, "lines": len(job.items), "tokens": tokens}
            entry |= {"queue_seconds": round(waited, 4), "model_seconds": round(job.model_seconds, 4)}
            if record.logs_texts:
                entry["texts"] = [text.text for text in job.items]
        # One JSON object in ASCII, so that no text can imitate another line.
        ACCESS_LOG.info("%s", json.dumps(entry))

    def text(self) -> bytes:
        return prometheus_client.generate_latest(self._registry)


class Record:
    """What the access log and the metrics say about a request that passes through `Guard`."""

    def __init__(self, scope: "Scope", logs_texts: bool) -> None:
        scope[_KEY] = self
        self.method: str = scope["method"]
        self.path: str = scope["path"][:_LONGEST_PATH]  # without the query string
        self.client: str = (scope.get("client") or ("",))[0]
        self.arrived = time.monotonic()
        self.status = 499  # of the response; 499 if the client disconnected first
        self.model = ""
        self.job: Job | None = None
        self.logs_texts = logs_texts

    @classmethod
    def of(cls, request: "Request") -> "Record":
        return request.scope[_KEY]
