"""Code that the endpoints share: API keys, waiting for results, and error responses."""

import asyncio
import contextlib
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException as AnyHTTPException

from t2t_lite.errors import UserError
from t2t_lite.files import encodable
from t2t_lite.serving.batching import QueueFull
from t2t_lite.serving.limits import ClientGone
from t2t_lite.serving.models import ModelSet, NoSuchModel, NotReady
from t2t_lite.serving.monitoring import Metrics, Record
from t2t_lite.serving.options import ServingOptions
from t2t_lite.serving.served_model import Place, Result, ServedModel, Task, Text, TooLong

_RETRY_SECONDS = 5  # the Retry-After of responses while models are loaded
# Requests with more characters are prepared in another thread.
_LONG = 20_000


async def without_delay(size: int, function: Any, *arguments: Any) -> Any:  # noqa: ANN401  any function
    """Calls a function, in another thread if `size` (in characters) is large, so that other requests need not wait."""
    return function(*arguments) if size < _LONG else await run_in_threadpool(function, *arguments)


class Answering:
    """The state that endpoints share: the options, the API keys, the metrics and the models, which are loaded later."""

    def __init__(self, places: Sequence[Place], options: ServingOptions) -> None:
        self.options, self.metrics, self.keys = options, Metrics(), Keys(options.api_keys)
        self.models = ModelSet(places, options, self.metrics)

    def add_error_answers(self, app: FastAPI) -> None:
        """Makes an application answer errors with {"error": line}, without paths on this machine. See also `Guard`."""

        async def handler(request: Request, error: Exception) -> JSONResponse:
            describe = next(describer for kind, describer in _ANSWERS.items() if isinstance(error, kind))
            status, message, headers = describe(error)
            if status in _REASONS:
                self.metrics.refused.labels(_REASONS[status]).inc()
            return JSONResponse({"error": encodable(message)}, status, headers)

        for kind in _ANSWERS:
            app.add_exception_handler(kind, handler)

    def check_key(self, request: Request, key: str = "") -> None:
        """Raises HTTPException if keys are required and neither `key` nor the header Authorization is a valid one."""
        if not self.keys.are_needed:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = [key.strip()]
        if not key and scheme.lower() == "bearer":
            given = [token.strip()]
            with contextlib.suppress(UnicodeDecodeError):  # clients send UTF-8 (curl) or Latin-1, as which it was read
                given.append(token.strip().encode("latin-1").decode("utf-8"))
        if not any(given):
            raise HTTPException(401, "this server needs an API key", {"WWW-Authenticate": "Bearer"})
        if not any(self.keys.accept(each) for each in given):
            raise HTTPException(403, "Invalid API key")

    async def check_header(self, request: Request, _: object = Depends(HTTPBearer(auto_error=False))) -> None:
        """Raises HTTPException if keys are required and the header Authorization is not a valid one."""
        self.check_key(request)

    def check_lines(self, number: int) -> None:
        """Raises HTTPException if a request has too many lines or sentences."""
        if number > self.options.max_lines:
            raise HTTPException(
                413, f"the request has {number:,} sentences; at most {self.options.max_lines:,} are allowed"
            )

    async def results(self, request: Request, model: ServedModel, task: Task, texts: Sequence[Text]) -> list[Result]:
        """Returns a model's results for the texts of a request. Drops texts that still wait when the request ends.

        Raises HTTPException if the request times out, ClientGone if the client disconnects, and the errors of
        `ServedModel.submit` and the model.
        """
        record = Record.of(request)
        job = model.submit(task, texts)
        record.job, record.model = job, model.name
        left = record.arrived + self.options.timeout_seconds - time.monotonic()
        answer = asyncio.wrap_future(job.future)
        gone = asyncio.ensure_future(request.receive())  # after the body, only a disconnect can arrive
        try:
            await asyncio.wait((answer, gone), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if gone.done():
                raise ClientGone
            raise HTTPException(504, f"no answer within {self.options.timeout_seconds:g} s")
        finally:
            model.batcher.cancel(job)
            for waiting in (answer, gone):
                waiting.cancel()


# How each type of error becomes (status, message, headers). The first matching type applies.
_ANSWERS: dict[type[Exception], Callable[[Any], tuple[int, str, dict[str, str]]]] = {
    AnyHTTPException: lambda error: (error.status_code, str(error.detail), dict(error.headers or {})),
    RequestValidationError: lambda error: (400, "; ".join(map(_line, error.errors()[:5])), {}),
    NoSuchModel: lambda error: (400, str(error), {}),
    UserError: lambda error: (400, str(error).replace("`", ""), {}),
    TooLong: lambda error: (413, str(error), {}),
    QueueFull: lambda error: (429, "the queue is full; try again", {"Retry-After": str(error.retry_after)}),
    NotReady: lambda error: (503, "the models are not loaded yet", {"Retry-After": str(_RETRY_SECONDS)}),
}
# The reasons in the metrics, for statuses after which a retry or a smaller request may succeed.
_REASONS = {413: "too_large", 429: "queue_full", 503: "loading", 504: "timeout"}


def _line(error: Any) -> str:  # noqa: ANN401  an error of pydantic
    where = ".".join(str(part) for part in error["loc"] if part != "body")
    return f"{where}: {error['msg']}" if where else str(error["msg"])


class Keys:
    """The API keys in a file, one per line. Empty lines and lines that begin with # are ignored.

    Without a path, no key is required and any key is accepted. Raises UserError if the file cannot be read or has none.
    """

    def __init__(self, path: str | PathLike | None) -> None:
        self._path = path
        self._digests: list[bytes] = []
        self.read()

    @property
    def are_needed(self) -> bool:
        return self._path is not None

    def read(self) -> None:
        """Reads the file again. Keeps the old keys and raises UserError if the file cannot be read or has no key."""
        if self._path is None:
            return
        try:
            lines = [line.lstrip("\ufeff").strip() for line in Path(self._path).read_text("utf-8").splitlines()]
        except (OSError, ValueError) as error:
            raise UserError(f"`api_keys={self._path}` cannot be read: {error}") from error
        keys = [line for line in lines if line and not line.startswith("#")]
        if not keys:
            raise UserError(f"`api_keys={self._path}` contains no key; write one key per line")
        self._digests = [_digest(key) for key in keys]

    def accept(self, key: str) -> bool:
        """Returns whether a key is valid. The time does not depend on how much of the key is right."""
        matches = [hmac.compare_digest(digest, _digest(key)) for digest in self._digests]  # all, even after a match
        return any(matches) or not self.are_needed


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", errors="replace")).digest()
