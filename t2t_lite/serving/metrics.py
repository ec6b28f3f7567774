"""The metrics of a server, in Prometheus' format."""

from collections.abc import Callable

import prometheus_client

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
