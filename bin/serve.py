"""t2t-lite-serve: serves trained models over HTTP."""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.bin.cli.option_flags import add_options, given, trust_plugins
from t2t_lite.decoding.engine import ENGINES
from t2t_lite.decoding.options import DecodeOptions, EngineOptions
from t2t_lite.plugins import load_all
from t2t_lite.serving.options import ServingOptions
from t2t_lite.serving.record import ACCESS_LOG
from t2t_lite.system.installed import check_installed

if TYPE_CHECKING:
    from t2t_lite.serving.models import Place

# The packages of the extra `serve`, by module.
_PACKAGES = {
    "fastapi": "FastAPI",
    "fastapi_offline": "fastapi-offline",
    "uvicorn": "uvicorn",
    "uvloop": "uvloop",
    "httptools": "httptools",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
    "sentencex": "sentencex",
    "py3langid": "py3langid",
    "babel": "Babel",
    "jinja2": "Jinja",
}
_GROUPS = {
    "batching": ("batch_tokens", "batch_delay_ms", "max_waiting"),
    "limits of a request": (
        *("max_requests", "max_body_bytes", "max_lines", "max_tokens", "max_beam_size", "timeout_seconds"),
        *("read_seconds", "request_settings"),
    ),
    "access": ("api_keys", "allowed_hosts", "cors_origins", "log_texts"),
}


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("serve", _run, argv, exit_at_once=True)


def make_parser() -> cli.CommandParser:
    parser = cli.CommandParser(
        "serve", "Serve translation and parsing over HTTP, with LibreTranslate's API and our own.", runs=True
    )
    which = parser.add_mutually_exclusive_group(required=True).add_argument
    which(
        "--export_dir", type=cli.paths, metavar="DIR[,DIR,...]", help="exports from t2t-lite-export, one for each model"
    )
    which("--output_dir", type=cli.path, metavar="RUN", help="a run directory, instead of exports")
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address to listen on; 0.0.0.0: all (default: this machine only)")
    add("--port", type=cli.whole_number(0), default=8000, help="the port; 0: any free one (default: 8000)")
    add(
        "--languages",
        metavar="en-de[,...]",
        help="source and target language of each model, in order, such as en-de or pt-BR:de (default: the models' own)",
    )
    add("--engine", choices=ENGINES, help="with --output_dir: the engine that decodes (default: tensorflow)")
    add_options(add, DecodeOptions, "checkpoint_path", "decode_hparams")
    add_options(add, ServingOptions, "translate_letterless")
    add_options(add, EngineOptions, "num_threads")
    for group, names in _GROUPS.items():
        add_options(parser.add_argument_group(group).add_argument, ServingOptions, *names)
    parser.removed(
        "--watch",
        instead="restart the server for a new model, one of several after the other (docs/deploy.md)",
    )
    return parser


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    if arguments.export_dir and (arguments.engine or arguments.checkpoint_path):
        parser.error("--engine and --checkpoint_path need --output_dir; an export has its own")
    check_installed("the server", _PACKAGES, "serve")
    options, places = ServingOptions(**given(arguments, ServingOptions)), _places(arguments)
    from t2t_lite.serving import server

    _log_access()
    server.serve(places, options, arguments.host, arguments.port, cli.say)


def _places(arguments: argparse.Namespace) -> "list[Place]":
    from t2t_lite.serving import models, sources

    load_all(arguments.t2t_usr_dir)
    settings, threads = arguments.decode_hparams, arguments.num_threads
    if arguments.export_dir:
        chosen: list[sources.Source] = [sources.ExportSource(path, settings, threads) for path in arguments.export_dir]
    else:
        trust_plugins(arguments, [arguments.output_dir])
        engine = arguments.engine or ENGINES[0]
        chosen = [sources.RunSource(arguments.output_dir, settings, arguments.checkpoint_path, engine, threads)]
    return models.model_places(chosen, arguments.languages)


def _log_access() -> None:
    """Writes the access log to standard output, and hides uvicorn's messages about clients."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    ACCESS_LOG.handlers[:], ACCESS_LOG.propagate = [handler], False
    ACCESS_LOG.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
