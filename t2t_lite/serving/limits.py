"""The outermost layer of the application: limits of requests, hosts and origins, and server errors.

A page of any origin can make a browser send requests to a server that only the browser's machine can reach. A form or a
fetch of plain text needs no permission, so the header Origin is checked. With DNS rebinding, the page's own host name
later points to this machine, so page and server have the same origin; then the header Host contains that name, so it is
checked, too.
"""

import asyncio
import codecs
import ipaddress
import json
import re
import socket
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from t2t_lite.display import LOG
from t2t_lite.serving.monitoring import Metrics, Record
from t2t_lite.serving.options import ServingOptions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_HEAD_BYTES = 64 * 1024
# A body that is too large is read up to this size and discarded, so that the client can read the response.
_DISCARDED_BYTES = 64 * 2**20
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:/@\s]*)(?::(?P<port>[0-9]*))?", re.IGNORECASE)
_PORT = re.compile(r":[0-9]*\Z")
_USUAL_PORTS = {"http": "80", "https": "443"}
_ALL = "*"
# Monitors and load balancers request these under any name, and the responses contain only metrics.
_OPEN_PATHS = ("/health", "/ready", "/metrics")


class ClientGone(Exception):
    """The client closed the connection, or does not read its response."""


class _Refused(Exception):
    def __init__(self, status: int, message: str, reason: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class Guard:
    """The ASGI middleware. It passes the whole body to the application in one message."""

    def __init__(self, app: "ASGIApp", options: ServingOptions, metrics: Metrics) -> None:
        self._app, self._options, self._metrics = app, options, metrics
        self._origins = Origins(options.allowed_hosts, options.cors_origins)
        self._in_flight = 0

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = Record(scope, self._options.log_texts)
        starts: list[Message] = []  # the start of the response until its body is there; both have one time limit

        async def bounded_send(message: "Message") -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                starts.append(message)
                return
            try:
                async with asyncio.timeout(self._options.read_seconds):
                    while starts:
                        await send(starts.pop())
                    await send(message)
            except TimeoutError:
                raise ClientGone from None

        costs = scope["method"] == "POST"  # other methods cost little, and monitors must get responses
        self._in_flight += costs
        try:
            self._check(scope, costs)
            await self._app(scope, await self._with_body(scope, receive), bounded_send)
        except _Refused as refused:
            self._metrics.refused.labels(refused.reason).inc()
            await _refuse(bounded_send, refused)
        except ClientGone:
            record.status = 499
            self._metrics.refused.labels("client_gone").inc()
        except Exception as error:
            # Omit the message, which may contain part of a text.
            LOG.error("server error: %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
            has_begun, record.status = record.status != 499 and not starts, 500
            starts.clear()
            if not has_begun:
                await _refuse(bounded_send, _Refused(500, "internal server error; see the server's log", "error"))
        finally:
            self._in_flight -= costs
            self._metrics.answered(record, getattr(scope.get("route"), "path", "other"))

    def _check(self, scope: "Scope", costs: bool) -> None:
        names = [name for name, _ in scope["headers"]]
        if b"transfer-encoding" in names and b"content-length" in names:
            # A proxy in front of the server may read another length, and take a part of the body for a request.
            raise _Refused(400, "a request has either Content-Length or Transfer-Encoding", "length")
        head = len(scope["path"]) + len(scope.get("query_string", b""))
        # The HTTP server counts only heads that do not arrive at once.
        if head + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEAD_BYTES:
            raise _Refused(400, "the head of the request is too long", "too_large")
        if refusal := self._origins.refusal(scope["method"], scope["path"], scope["headers"]):
            raise _Refused(403, refusal, "origin")
        if costs and self._in_flight > self._options.max_requests:
            raise _Refused(429, "the server is handling too many requests; try again later", "busy")

    async def _with_body(self, scope: "Scope", receive: "Receive") -> "Receive":
        """Reads the body. Returns a `receive` that yields it first, without byte order mark; b"" unless it is a POST.

        Raises _Refused or ClientGone.
        """
        limit = self._options.max_body_bytes
        length = dict(scope["headers"]).get(b"content-length", b"0")
        announced = int(length) if length.isdigit() else 0
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._options.read_seconds):
                while announced <= _DISCARDED_BYTES and size <= _DISCARDED_BYTES:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    size += len(message.get("body", b""))
                    if size <= limit and scope["method"] == "POST":
                        parts.append(message.get("body", b""))
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise _Refused(408, "the request did not arrive in time", "slow") from None
        if max(size, announced) > limit:
            raise _Refused(413, f"the body has more than {limit:,} bytes", "too_large")
        body = b"".join(parts).removeprefix(codecs.BOM_UTF8)
        bodies: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_body_first() -> "Message":
            return bodies.pop() if bodies else await receive()

        return receive_body_first


async def _refuse(send: "Send", refused: _Refused) -> None:
    content = json.dumps({"error": str(refused)}).encode()
    headers: list[Any] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
        *([(b"retry-after", b"1")] if refused.status == 429 else []),
    ]
    try:
        await send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await send({"type": "http.response.body", "body": content})
    except ClientGone:
        pass


class Origins:
    """The names of a server and the origins of pages that may use it.

    Names that no public name server can assign to another machine are always allowed: IP addresses, names without a dot
    such as localhost or the name of a container, names below localhost, and the name of this machine.

    `hosts` are further names, or "*" for all. `origins` are the origins of other pages that may use the server, such as
    https://example.org, or "*" for all.
    """

    def __init__(self, hosts: Sequence[str], origins: Sequence[str]) -> None:
        own = socket.gethostname()
        self._hosts = frozenset(name.lower().rstrip(".") for name in (*hosts, own, f"{own.partition('.')[0]}.local"))
        self._origins = frozenset(origin.lower() for origin in origins)

    def refusal(self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Returns why a request is refused; "" if it is accepted. Header names must be in lower case."""
        texts = [(name, value.decode("latin-1").strip().lower()) for name, value in headers]
        hosts = [value for name, value in texts if name == b"host"]
        for host in hosts if path not in _OPEN_PATHS else ():
            if not self._has_name(host):
                return f"{_PORT.sub('', host)[:100]} is not a name of this server; add it to allowed_hosts"
        if method in ("GET", "HEAD", "OPTIONS"):  # they cost little, and other pages cannot read the response
            return ""
        values = dict(texts)
        origin = values.get(b"origin")
        if origin is None or not {_ALL, origin}.isdisjoint(self._origins):
            return ""
        scheme, _, place = origin.partition("://")
        usual = f":{_USUAL_PORTS.get(scheme, '')}"
        own = [host.removesuffix(usual) for host in hosts]
        is_own = scheme in _USUAL_PORTS and place and place.removesuffix(usual) in own
        # Browsers set sec-fetch-site themselves. It also works behind a proxy that does not forward the header Host.
        if is_own or values.get(b"sec-fetch-site") == "same-origin":
            return ""
        return f"pages of {origin[:100]} may not use this server; add the origin to cors_origins"

    def _has_name(self, host: str) -> bool:
        parsed = _HOST.fullmatch(host)
        if _ALL in self._hosts or parsed is None:
            return _ALL in self._hosts
        name = parsed["name"].removesuffix(".")
        if "." not in name or name.endswith(".localhost") or name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True
