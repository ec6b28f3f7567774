"""What the limits on heads of requests use of uvicorn, whose protocol has no documented interface."""

import asyncio
import inspect

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from t2t_lite.serving.protocol import BoundedProtocol, bounded_protocol


def test_uvicorn_calls_and_has_what_the_limits_use():
    for name, method in inspect.getmembers(BoundedProtocol, inspect.isfunction):
        if name in vars(BoundedProtocol) and not name.startswith("_"):
            theirs = inspect.signature(getattr(HttpToolsProtocol, name))
            assert list(theirs.parameters) == list(inspect.signature(method).parameters), name
    assert list(inspect.signature(HttpToolsProtocol.send_400_response).parameters) == ["self", "msg"]

    async def made():
        config = uvicorn.Config(FastAPI(), lifespan="off", ws="none", log_config=None)
        return bounded_protocol(3.0)(config=config, server_state=ServerState(), app_state={})

    protocol = asyncio.run(made())
    assert protocol.read_seconds == 3.0
    assert (protocol.transport, protocol.cycle, list(protocol.pipeline)) == (None, None, [])
    assert isinstance(protocol.loop, asyncio.AbstractEventLoop)
