"""Runs the application with uvicorn. Handles sockets and signals, and loads the models."""

import asyncio
import contextlib
import dataclasses
import math
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.serving.answering import Answering
from t2t_lite.serving.app import make_app
from t2t_lite.serving.limits import MAX_HEAD_BYTES
from t2t_lite.serving.options import ServingOptions
from t2t_lite.serving.served_model import Place, ServedModel

_BACKLOG = 2048


def serve(
    places: Sequence[Place],
    options: ServingOptions,
    host: str = "127.0.0.1",
    port: int = 8000,
    say: Callable[[str], None] = LOG.info,
) -> None:
    """Serves models until SIGTERM or SIGINT, then finishes accepted requests. Port 0 means any free port."""
    options = dataclasses.replace(options, allowed_hosts=(*options.allowed_hosts, *([] if ":" in host else [host])))
    answering = Answering(places, options)
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError as error:  # the address is taken, or does not belong to this machine
        raise UserError(
            f"cannot listen on `host={host}` `port={port}`: {error.strerror or error}; pass another `host` or `port`"
        ) from error
    listener.set_inheritable(False)
    config = uvicorn.Config(
        make_app(answering),
        http=H11Protocol,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        ws="none",
        log_config=None,
        access_log=False,
        backlog=_BACKLOG,
        server_header=False,
        timeout_keep_alive=math.ceil(options.read_seconds),
        timeout_graceful_shutdown=round(options.timeout_seconds + options.read_seconds) + 1,
        lifespan="off",
    )
    server = _Server(config, answering, say)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    say(f"listening at {address}, loading {', '.join(place.name for place in places)}")
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.run_at(listener))
    if not server.force_exit:
        answering.models.close()
    if server.error is not None:
        raise server.error


class _Server(uvicorn.Server):
    """A uvicorn server that loads the models in a thread. `error` is set if they cannot be loaded."""

    def __init__(self, config: uvicorn.Config, answering: Answering, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self._answering, self._say = answering, say
        self.error: Exception | None = None

    async def run_at(self, listener: socket.socket) -> None:
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._stop)
            loop.add_signal_handler(signal.SIGHUP, self._read_keys)
        threading.Thread(target=self._load, daemon=True).start()
        sweep = asyncio.create_task(self._sweep(self._answering.options.read_seconds))
        await self.serve(sockets=[listener])
        sweep.cancel()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:
        """Captures no signals, which `run_at` handles."""
        return contextlib.nullcontext()

    def _load(self) -> None:
        def say_loaded(model: ServedModel) -> None:
            pair = f"{model.source_language} to {model.target_language}" if model.target_language else ""
            what = "parser" if model.writes_trees else pair or "languages unknown"
            self._say(f"{model.name}: {what}, {model.source.checkpoint}, {model.engine}")

        started = time.monotonic()
        try:
            self._answering.models.load(say_loaded)
        except Exception as error:
            self.error, self.should_exit = error, True
            return
        self._say(f"ready after {time.monotonic() - started:.1f} s")

    async def _sweep(self, seconds: float) -> None:
        """Closes connections that have had no request for some seconds: silent ones, those with a part of a head, and
        those whose client does not read its answer. `Guard` limits the time of requests.
        """
        seen: dict[object, float] = {}  # when each connection was first seen without a request since its last one
        while True:
            await asyncio.sleep(seconds / 10)
            now = time.monotonic()
            waiting = {
                (each, each.cycle): each.transport
                for each in self.server_state.connections
                if isinstance(each, H11Protocol)
                and (
                    each.cycle is None
                    or each.cycle.response_complete
                    or each.transport.is_closing()
                    or each.flow.write_paused
                )
            }
            seen = {key: seen.get(key, now) for key in waiting}
            for key, transport in waiting.items():
                if now - seen[key] >= seconds:
                    transport.abort()

    def _read_keys(self) -> None:
        try:
            self._answering.keys.read()
            self._say("read the API keys again")
        except UserError as error:
            LOG.warning("keeping the old API keys: %s", error)

    def _stop(self) -> None:
        self.force_exit, self.should_exit = self.should_exit, True
