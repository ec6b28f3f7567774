"""t2t-lite-serve: answers requests over HTTP with trained models."""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.bin.cli.plugin_flags import trust_plugins
from t2t_lite.decoding.engine import ENGINES
from t2t_lite.installed import check_installed
from t2t_lite.serving.options import REQUEST_SETTINGS, ServingOptions
from t2t_lite.serving.record import ACCESS_LOG

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


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv` (default: those of this process) and returns its exit status."""
    return cli.run("serve", _run, argv, one_heap=True, exit_at_once=True)


def make_parser() -> cli.CommandParser:
    """Returns the parser of the command's flags."""
    parser = cli.CommandParser(
        "serve", "Translate and parse over HTTP, with LibreTranslate's API and one of our own.", runs=True
    )
    which = parser.add_mutually_exclusive_group(required=True).add_argument
    which(
        "--export_dir", type=cli.paths, metavar="DIR[,DIR,...]", help="exports of t2t-lite-export, one for each model"
    )
    which("--output_dir", type=cli.path, metavar="RUN", help="instead: a run directory")
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address to listen at; 0.0.0.0: all (default: this machine only)")
    add("--port", type=cli.whole_number(0), default=8000, help="0: any that is free (default: 8000)")
    add(
        "--languages",
        metavar="en-de[,...]",
        help="the languages of each model, if it does not name them itself, as codes: en-de, pt-BR:de",
    )
    add("--decode_hparams", default="", metavar="NAME=VALUE,...", help="overrides of the models' search settings")
    add("--engine", choices=ENGINES, help="with --output_dir: what searches (default: tensorflow)")
    add("--checkpoint_path", default="", metavar="best|last|average|ckpt-N", help="with --output_dir: which checkpoint")
    add(
        "--watch",
        type=cli.positive_number,
        metavar="SECONDS",
        help="look for changed models this often (default: on SIGHUP)",
    )
    add(
        "--num_threads", type=cli.whole_number(1), help="batches searched in parallel (default: one for each processor)"
    )
    _add_batching(parser)
    _add_limits(parser)
    _add_access(parser)
    return parser


def _add_batching(parser: cli.CommandParser) -> None:
    add = _with_defaults(parser.add_argument_group("batching").add_argument)
    parser.add_argument(
        "--batch_tokens",
        type=cli.whole_number(1),
        help="source tokens of a batch, padding included (default: 1024 with CTranslate2, 4096 with TensorFlow)",
    )
    add("--batch_delay_ms", _not_negative, "how long a batch that is not full waits for more requests")
    add("--max_waiting", cli.whole_number(1), "sentences that may wait for a model; further requests get 429")


def _add_limits(parser: cli.CommandParser) -> None:
    group = parser.add_argument_group("limits of a request")
    add = _with_defaults(group.add_argument)
    add("--max_requests", cli.whole_number(1), "requests at the same time; further ones get 429")
    add("--max_body_bytes", cli.whole_number(1), "size of its body")
    add("--max_lines", cli.whole_number(1), "sentences in it")
    add("--max_tokens", cli.whole_number(1), "tokens in a sentence")
    add("--max_beam_size", cli.whole_number(1), "beam_size and number of hypotheses")
    add("--timeout_seconds", cli.positive_number, "time to an answer, then 504")
    add("--read_seconds", cli.positive_number, "time for a client to send a request, and to take an answer")
    group.add_argument(
        "--request_settings",
        type=_listed,
        default=REQUEST_SETTINGS,
        metavar="NAME,...",
        help="the search settings that it may change; '': none (default: all that cost little)",
    )


def _add_access(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("access").add_argument
    add(
        "--api_keys", type=cli.path, metavar="FILE", help="a key in each line; requests need one (default: none needed)"
    )
    add(
        "--allowed_hosts",
        type=_listed,
        default=(),
        metavar="NAME,...",
        help="names by which browsers may reach the server, beside its addresses, names without a dot and that of this "
        "machine; *: all (default: none)",
    )
    add(
        "--cors_origins",
        type=_listed,
        default=(),
        metavar="ORIGIN,...",
        help="web pages of these origins may call the server; *: all (default: none)",
    )
    add("--log_texts", action="store_true", help="write the texts of requests into the access log")


def _with_defaults(add: Callable[..., argparse.Action]) -> Callable[..., argparse.Action]:
    """Returns an `add_argument` (flag, type, help) whose defaults are those of `ServingOptions`."""
    usual = ServingOptions()

    def add_with_default(flag: str, kind: Callable, text: str) -> argparse.Action:
        default = getattr(usual, flag.removeprefix("--"))
        return add(flag, type=kind, default=default, help=f"{text} (default: {default})")

    return add_with_default


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _not_negative(text: str) -> float:
    return 0.0 if text == "0" else cli.positive_number(text)


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    if arguments.export_dir and (arguments.engine or arguments.checkpoint_path):
        parser.error("--engine and --checkpoint_path are for --output_dir; an export has one of each")
    check_installed("the server", _PACKAGES, "serve")
    options, places = _options(arguments), _places(arguments)
    from t2t_lite.serving.server import serve

    _log_access()
    serve(places, options, arguments.host, arguments.port, cli.say)


def _options(arguments: argparse.Namespace) -> ServingOptions:
    given = vars(arguments)
    names = [field.name for field in dataclasses.fields(ServingOptions) if field.name in given]
    return ServingOptions(**{name: given[name] for name in names}, watch_seconds=arguments.watch or 0.0)


def _places(arguments: argparse.Namespace) -> "list[Place]":
    """Returns the models that the flags name."""
    from t2t_lite.plugins import load_all
    from t2t_lite.serving.models import places_of
    from t2t_lite.serving.sources import ExportSource, RunSource, Source

    load_all(arguments.t2t_usr_dir)
    settings, threads = arguments.decode_hparams, arguments.num_threads
    if arguments.export_dir:
        sources: list[Source] = [ExportSource(path, settings, threads) for path in arguments.export_dir]
    else:
        trust_plugins(arguments, [arguments.output_dir])
        engine = arguments.engine or ENGINES[0]
        sources = [RunSource(arguments.output_dir, settings, arguments.checkpoint_path, engine, threads)]
    return places_of(sources, arguments.languages)


def _log_access() -> None:
    """Writes the access log to standard output, and hides what uvicorn says about clients."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    ACCESS_LOG.handlers[:], ACCESS_LOG.propagate = [handler], False
    ACCESS_LOG.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
