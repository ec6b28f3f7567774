"""Records data about a request for the access log and the metrics."""

import dataclasses
import json
import logging
import time
from typing import TYPE_CHECKING, Any

from t2t_lite.serving.batching import Job

if TYPE_CHECKING:
    from starlette.requests import Request


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
