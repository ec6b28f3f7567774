"""What is noted about a request while it is answered: for the access log and the figures."""

import dataclasses
import json
import logging
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request

    from t2t_lite.serving.batching import Job

ACCESS_LOG = logging.getLogger("t2t_lite.access")
_KEY = "t2t_lite.record"


@dataclasses.dataclass
class Record:
    """The notes about a request."""

    method: str  # of the request; the path has no query string
    path: str  # of the request; the path has no query string
    client: str  # of the request; the path has no query string
    arrived: float = dataclasses.field(default_factory=time.monotonic)  # when it came, by time.monotonic()
    status: int = 499  # of the answer; 499 if the client left before
    model: str = ""  # the model's name
    lines: int = 0  # sentences and source tokens of the request
    tokens: int = 0  # sentences and source tokens of the request
    job: "Job | None" = None  # the request's job
    texts: list[str] | None = None  # the texts, if they are logged

    @classmethod
    def of(cls, request: "Request") -> "Record":
        """Returns the record of a request that came through `Guard`."""
        return request.scope[_KEY]

    def attach(self, scope: Any) -> None:  # noqa: ANN401  an ASGI scope
        """Makes `of` find the record."""
        scope[_KEY] = self

    def log(self) -> None:
        """Writes the line of the access log: one JSON object, in ASCII, so that no text can look like another line."""
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
