"""Runs the application with uvicorn. Handles sockets and signals, and loads and reloads models."""

import asyncio
import contextlib
import dataclasses
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import uvicorn

from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.serving.answering import Answering
from t2t_lite.serving.app import make_app
from t2t_lite.serving.models import Place
from t2t_lite.serving.options import ServingOptions
from t2t_lite.serving.protocol import bounded_protocol
from t2t_lite.serving.served_model import ServedModel

_BACKLOG = 2048


def serve(
    places: Sequence[Place],
    options: ServingOptions,
    host: str = "127.0.0.1",
    port: int = 8000,
    say: Callable[[str], None] = LOG.info,
) -> None:
    """Serves models until SIGTERM or SIGINT, then finishes accepted requests. Port 0 means any free port.

    `say` receives messages about the models and the address. Raises UserError if a model is unusable or the port is
    taken.
    """
    options = dataclasses.replace(options, allowed_hosts=(*options.allowed_hosts, *([] if ":" in host else [host])))
    answering = Answering(places, options)
    for place in places:
        place.source.about()  # checks each model before the port is opened
    listener = _bound(host, port)
    config = uvicorn.Config(
        make_app(answering),
        http=bounded_protocol(options.read_seconds),
        ws="none",
        log_config=None,
        access_log=False,
        backlog=_BACKLOG,
        server_header=False,
        timeout_keep_alive=max(5, round(options.read_seconds)),
        timeout_graceful_shutdown=round(options.timeout_seconds + options.read_seconds) + 1,
        lifespan="off",
    )
    server = _Server(config)
    loader = _Loader(answering, server, say)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    say(f"listening at {address}, loading {', '.join(place.source.name for place in places)}")
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_run(server, loader, listener))
    loader.stop()
    if not server.force_exit:
        answering.models.close()
    if loader.error is not None:
        raise loader.error


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to this module."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures no signals."""
        yield


class _Loader:
    """Loads and reloads the models in its own thread. `error` is set if the models could not be loaded at the start."""

    def __init__(self, answering: Answering, server: _Server, say: Callable[[str], None]) -> None:
        self._models, self._keys, self._server, self._say = answering.models, answering.keys, server, say
        self._watch = answering.options.watch or None
        self._woken = threading.Event()
        self._is_asked = self._is_over = False
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Starts loading."""
        self._thread.start()

    def reload(self) -> None:
        """Triggers a check for changed models and keys."""
        self._is_asked = True
        self._woken.set()

    def stop(self) -> None:
        """Stops the loader and abandons a model that is being loaded."""
        self._is_over = True
        self._woken.set()

    def _work(self) -> None:
        started = time.monotonic()
        try:
            self._models.load(lambda model: self._say(_loaded_line(model)))
        except Exception as error:
            self.error, self._server.should_exit = error, True
            return
        self._say(f"ready after {time.monotonic() - started:.1f} s")
        while True:
            self._woken.wait(self._watch)
            self._woken.clear()
            if self._is_over:
                return
            if self._is_asked:
                self._is_asked = False
                try:
                    self._keys.read()
                except UserError as error:
                    LOG.warning("keeping the old API keys: %s", error)
            for model in self._models.reload():
                self._say(f"changed: {_loaded_line(model)}")


async def _run(server: _Server, loader: _Loader, listener: socket.socket) -> None:
    """Serves until a signal arrives or the models cannot be loaded."""

    def stop() -> None:
        if server.should_exit:
            server.force_exit = True
        server.should_exit = True

    if threading.current_thread() is threading.main_thread():
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        loop.add_signal_handler(signal.SIGHUP, loader.reload)
    loader.start()
    await server.serve(sockets=[listener])


def _loaded_line(model: ServedModel) -> str:
    """Returns the message about a loaded model."""
    pair = f"{model.source_language} to {model.target_language}, " if model.target_language else ""
    what = "parser, " if model.writes_trees else pair or "languages unknown, "
    return f"{model.name}: {what}{model.about.checkpoint}, {model.about.engine}"


def _bound(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Raises UserError if the address is taken or does not belong to this machine."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise UserError(
            f"cannot listen on `host={host}` `port={port}`: {error.strerror or error}; pass another `host` or `port`"
        ) from error
    listener.set_inheritable(False)
    return listener
