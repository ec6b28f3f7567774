"""t2t-lite-serve: serves trained models over HTTP."""

import logging
import sys
from collections.abc import Sequence
from os import PathLike

from t2t_lite.bin import cli
from t2t_lite.decoding.options import ENGINES, DecodeOptions, EngineOptions
from t2t_lite.options import option
from t2t_lite.serving.options import ServingOptions
from t2t_lite.system.installed import check_installed

# The packages of the extra `serve`, by module.
_PACKAGES = {
    "fastapi": "FastAPI",
    "fastapi_offline": "fastapi-offline",
    "uvicorn": "uvicorn",
    "uvloop": "uvloop",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
    "sentencex": "sentencex",
    "py3langid": "py3langid",
    "babel": "Babel",
    "jinja2": "Jinja",
}


class Flags(cli.RunFlags):
    export_dir: cli.Paths | None = option(
        None, "exports from t2t-lite-export, one for each model", required=True, one_of=True, metavar="DIR[,DIR,...]"
    )
    output_dir: PathLike | None = option(None, "a run directory, instead of exports", one_of=True, metavar="RUN")
    host: str = option("127.0.0.1", "the address to listen on; 0.0.0.0: all", unset="this machine only")
    port: int = option(8000, "the port; 0: any free one", at_least=0)
    languages: str | None = option(
        None,
        "source and target language of each model, in order, such as en-de or pt-BR:de",
        unset="the models' own",
        metavar="en-de[,...]",
    )
    terms: cli.Paths | None = option(
        None,
        "a glossary for each model, in order, with TERM<tab>TRANSLATION on each line; none: no glossary",
        metavar="FILE[,FILE,...]",
    )
    engine: str | None = option(
        None, "with --output_dir: the engine that decodes", unset="tensorflow", choices=ENGINES, parse=str
    )
    search: type[DecodeOptions] = DecodeOptions
    server: type[ServingOptions] = ServingOptions
    num_threads: int | None = EngineOptions.field("num_threads")


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("serve", _run, argv, exit_at_once=True)


def make_parser() -> cli.CommandParser:
    return cli.CommandParser(
        "serve",
        "Serve translation and parsing over HTTP, with LibreTranslate's API and our own.",
        Flags,
        {"--watch": "restart the server for a new model, one of several after the other (docs/deploy.md)"},
    )


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    if arguments.export_dir and (arguments.engine or arguments.checkpoint_path):
        parser.error("--engine and --checkpoint_path need --output_dir; an export has its own")
    check_installed("the server", _PACKAGES, "serve")
    options = ServingOptions(**cli.given(arguments, ServingOptions))
    from t2t_lite.serving import models, monitoring, server

    cli.load_plugins(arguments, [arguments.output_dir] if arguments.output_dir else None)
    names = ("decode_hparams", "num_threads", "output_dir", "checkpoint_path")
    options_of_models = {name: getattr(arguments, name) for name in names}
    options_of_models |= {"engine": arguments.engine or "", "terms": arguments.terms or ()}
    places = models.model_places(arguments.export_dir or (), arguments.languages, **options_of_models)
    # The access log goes to standard output; uvicorn's messages about clients are hidden.
    log = monitoring.ACCESS_LOG
    log.handlers[:], log.propagate = [logging.StreamHandler(sys.stdout)], False
    log.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server.serve(places, options, arguments.host, arguments.port, cli.say)
