"""Simulates many simultaneous clients of a server, and measures the responses.

It uses LibreTranslate's API, so it can measure any server with that API. The clients may share the machine with the
server, so they must be cheap: each is a bare HTTP connection that parses only what it needs.
"""

import asyncio
import collections
import dataclasses
import itertools
import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import httptools

from t2t_lite.errors import UserError

# The server's memory in its response to GET /metrics. Servers other than t2t-lite-serve may lack it.
_MEMORY = re.compile(rb"^process_resident_memory_bytes ([0-9.e+]+)$", re.MULTILINE)
_PAUSE_AFTER_ERROR = 0.2  # seconds; avoids flooding a server that refuses everything
_PERCENTILES = (50, 95, 99)


@dataclasses.dataclass
class ServingFigures:
    """The measurements of all clients together."""

    seconds: float = 0.0  # time from the first request to the last response
    lines: int = 0  # number of lines in the responses
    # Seconds from request to response for each successful request, in the order of the responses.
    latencies: list[float] = dataclasses.field(default_factory=list)
    # Number of failed requests by error: an HTTP status, or "connection closed".
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    # Samples: (seconds since the start, resident bytes of the server); [] if unknown.
    memory: list[tuple[float, float]] = dataclasses.field(default_factory=list)

    @property
    def lines_per_second(self) -> float:
        """Translated lines per second."""
        return self.lines / self.seconds if self.seconds else 0.0

    def percentile(self, percent: float) -> float:
        """Returns the latency in seconds that `percent`% of the responses do not exceed; NaN without responses."""
        if not self.latencies:
            return float("nan")
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

    def as_json(self) -> dict[str, Any]:
        """Returns the measurements for a JSON file, with latencies in milliseconds."""
        return {
            "seconds": self.seconds,
            "lines": self.lines,
            "lines_per_second": self.lines_per_second,
            "requests": len(self.latencies),
            **{f"p{percent}_ms": 1000 * self.percentile(percent) for percent in _PERCENTILES},
            "errors": dict(self.errors),
            "memory": self.memory,
        }


def measure_serving(
    url: str, texts: Sequence[str], clients: int, lines: int, seconds: float, api_key: str = ""
) -> ServingFigures:
    """Measures a server under load: several clients send requests with `lines` lines each, one at a time per client.

    The texts are sent in turn to the server at `url`, "http://host:port", for its first language pair. After `seconds`,
    the clients only wait for pending responses. Raises a UserError if there is no such server, or it has no language
    pairs.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise UserError(f"`url={url}` is not the address of a server; pass one such as http://127.0.0.1:8000")
    address = parts.hostname, parts.port or 80
    figures = ServingFigures()

    async def measure() -> None:
        source, target = await _first_pair(address)
        bodies = _bodies(texts, lines, {"source": source, "target": target, "api_key": api_key})
        started = time.monotonic()
        sampling = asyncio.create_task(_sample_memory(address, started, figures))
        await asyncio.gather(*(_client(address, bodies, lines, started + seconds, figures) for _ in range(clients)))
        figures.seconds = time.monotonic() - started
        sampling.cancel()

    asyncio.run(measure())
    return figures


def _bodies(texts: Sequence[str], lines: int, fields: dict[str, str]) -> Iterator[bytes]:
    """Returns an endless iterator over request bodies, built in advance so that they cost the clients no time."""
    number = max(len(texts) // lines, 1) * lines
    cycle = itertools.cycle(texts)
    ordered = [next(cycle) for _ in range(number)]
    made = [
        json.dumps({"q": ordered[start : start + lines], **fields}, ensure_ascii=False).encode()
        for start in range(0, number, lines)
    ]
    return itertools.cycle(made)


async def _client(
    address: tuple[str, int], bodies: Iterator[bytes], lines: int, end: float, figures: ServingFigures
) -> None:
    """Sends requests one after the other until `end`, and adds the measurements to `figures`."""
    connection: _Connection | None = None
    while (sent := time.monotonic()) < end:
        try:
            connection = connection or await _connected(address)
            status, content = await connection.request("POST", "/translate", next(bodies))
        except OSError:
            figures.errors["connection closed"] += 1
            connection = None
            await asyncio.sleep(_PAUSE_AFTER_ERROR)
            continue
        if status != 200 or len(json.loads(content).get("translatedText", ())) != lines:
            figures.errors[str(status)] += 1
            await asyncio.sleep(_PAUSE_AFTER_ERROR)
        else:
            figures.latencies.append(time.monotonic() - sent)
            figures.lines += lines
        if connection.is_closed:
            connection = None
    if connection is not None:
        connection.close()


async def _first_pair(address: tuple[str, int]) -> tuple[str, str]:
    """Returns the first language pair of a server."""
    try:
        status, content = await (await _connected(address)).request("GET", "/languages")
    except OSError as error:
        raise UserError(f"no server answers at http://{address[0]}:{address[1]}; start t2t-lite-serve there") from error
    known = json.loads(content) if status == 200 else []
    for language in known:
        if language.get("targets"):
            return language["code"], language["targets"][0]
    raise UserError(
        f"the server at http://{address[0]}:{address[1]} lists no language pairs; start it with --languages=en-de, or "
        "pass another `url`"
    )


async def _sample_memory(address: tuple[str, int], started: float, figures: ServingFigures) -> None:
    """Samples the server's memory once a second."""
    connection = await _connected(address)
    while True:
        status, content = await connection.request("GET", "/metrics")
        match = _MEMORY.search(content) if status == 200 else None
        if match is None:
            return
        figures.memory.append((time.monotonic() - started, float(match[1])))
        await asyncio.sleep(1)


async def _connected(address: tuple[str, int]) -> "_Connection":
    _, connection = await asyncio.get_running_loop().create_connection(_Connection, *address)
    return connection


class _Connection(asyncio.Protocol):
    """An HTTP connection that sends requests one after another."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self.is_closed = False

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Sends a request and returns (status, body). Raises OSError if the connection ends before the response."""
        if self._transport is None or self.is_closed:
            raise ConnectionError
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._parts: list[bytes] = []
        head = f"{method} {path} HTTP/1.1\r\nHost: t2t-lite\r\nContent-Length: {len(body)}\r\n"
        self._transport.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        return await self._answer

    def close(self) -> None:
        """Closes the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.is_closed = True
        answer = getattr(self, "_answer", None)
        if answer is not None and not answer.done():
            answer.set_exception(ConnectionError())

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """See httptools."""
        if not self._parser.should_keep_alive():
            self.close()
            self.is_closed = True
        self._answer.set_result((self._parser.get_status_code(), b"".join(self._parts)))
