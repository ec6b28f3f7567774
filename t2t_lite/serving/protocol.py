"""uvicorn's HTTP protocol with limits on the time and size of request heads.

uvicorn has no settings for these limits, and an application receives a request only when its head is complete. So this
module extends uvicorn's protocol. The methods and attributes that it uses are not documented; no other module uses
them, and `tests/serving/test_protocol.py` fails if a version of uvicorn lacks them.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MAX_HEAD_BYTES = 64 * 1024
_MAX_PIPELINED = 16  # requests sent before the first response


class BoundedProtocol(HttpToolsProtocol):
    """Limits the time and size of request heads, and the time to read a response. `Guard` limits bodies.

    `read_seconds` limits the time of a request head, counted from the opening of the connection or, for later heads,
    from their first byte; also the time for the client to read a response.
    """

    read_seconds = 10.0

    _timer: asyncio.TimerHandle | None = None
    _unsent_timer: asyncio.TimerHandle | None = None
    _head_bytes = _raw_head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._unsent_timer is not None and not self.transport.get_write_buffer_size():
            self._unsent_timer.cancel()
            self._unsent_timer = None
        if self._timer is not None:  # count the raw bytes, because the parser buffers incomplete headers
            if self._raw_head_bytes > _MAX_HEAD_BYTES:
                self.send_400_response("The head of the request is too long.")
                return
            self._raw_head_bytes += len(data)
        super().data_received(data)
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._start_timer()  # part of the next head has arrived

    def on_message_begin(self) -> None:
        if len(self.pipeline) > _MAX_PIPELINED:
            raise ValueError("too many requests before the first answer")  # the parser answers with 400
        super().on_message_begin()
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)  # plus a colon, a blank and the line break
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._unsent_timer is None and self.transport.get_write_buffer_size():
            self._unsent_timer = self.loop.call_later(self.read_seconds, self._abort_unsent)

    def _count(self, number: int) -> None:
        self._head_bytes += number
        if self._head_bytes > _MAX_HEAD_BYTES:
            raise ValueError("the head of the request is too long")  # the parser answers with 400

    def _start_timer(self) -> None:
        self._raw_head_bytes = 0
        self._timer = self.loop.call_later(self.read_seconds, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        self.transport.close()

    def _abort_unsent(self) -> None:
        self._unsent_timer = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()


def bounded_protocol(seconds: float) -> type[BoundedProtocol]:
    """Returns the protocol with the given `read_seconds`."""
    return type("Bounded", (BoundedProtocol,), {"read_seconds": seconds})
