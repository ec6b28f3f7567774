"""The application for Ray Serve, which runs several replicas on one or many machines.

serve run t2t_lite.serving.ray_app:app export_dir=DIR num_replicas=2
"""

from fastapi import FastAPI
from ray import serve  # type: ignore[import-not-found]  of the extra ray

from t2t_lite.errors import UserError
from t2t_lite.files import split_paths
from t2t_lite.serving.app import loaded_app
from t2t_lite.serving.models import ModelSet, model_places
from t2t_lite.serving.monitoring import Metrics
from t2t_lite.serving.options import ServingOptions
from t2t_lite.serving.served_model import Place

_NAMES = ("export_dir", "languages", "translate_letterless", "num_replicas", "num_cpus", "decode_hparams", "api_keys")
_USUAL = dict.fromkeys((*_NAMES, "allowed_hosts"), "") | {"num_replicas": "1", "num_cpus": "1"}


def app(arguments: dict[str, str]) -> serve.Application:
    """Returns the application with its models. `serve run` calls it.

    Args:
      arguments: export_dir, a directory that all machines can read, or several, "a,b"; num_replicas; num_cpus, the
        number of CPUs and of parallel batches for each replica; languages, translate_letterless, decode_hparams,
        api_keys and allowed_hosts, as in t2t-lite-serve.
    """
    if unknown := sorted(arguments.keys() - _USUAL.keys()):
        raise UserError(f"unknown argument {unknown[0]}; valid arguments are {', '.join(_USUAL)}")
    given = _USUAL | arguments
    if not given["export_dir"]:
        raise UserError("export_dir is missing; pass export_dir=DIR")
    paths, threads = split_paths(given["export_dir"]), int(given["num_cpus"])

    def places() -> list[Place]:
        return model_places(paths, given["languages"], given["decode_hparams"], threads)

    hosts, letterless = (
        tuple(filter(None, given[name].split(","))) for name in ("allowed_hosts", "translate_letterless")
    )
    options = ServingOptions(api_keys=given["api_keys"] or None, allowed_hosts=hosts, translate_letterless=letterless)
    ModelSet(places(), options, Metrics())  # checks the models before starting replicas

    def build() -> FastAPI:  # called in each replica
        return loaded_app(places(), options)

    deployment = serve.deployment(
        serve.ingress(build)(),
        name="t2t-lite",
        num_replicas=int(given["num_replicas"]),
        ray_actor_options={"num_cpus": threads},
        max_ongoing_requests=options.max_requests,
    )
    return deployment.bind()
