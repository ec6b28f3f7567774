"""The output of --registry_help: all registered names, or one entry in detail. Needs no TensorFlow."""

import dataclasses
import inspect
import typing

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.data.problem import REVERSED_SUFFIX, Problem, get_problem
from t2t_lite.errors import UserError, nearest
from t2t_lite.registry import HPARAMS, METRICS, MODELS, PROBLEMS, Registry
from t2t_lite.scoring.metric import figure_of, needs_of
from t2t_lite.settings import meaning


def print_registry_help(name: str = "") -> None:
    """Prints all names with a summary of each; or the details of that problem, set, model, metric or setting.

    Raises:
      UserError: if the name is unknown; the message suggests the nearest names.
    """
    if name:
        _print_entry(name)
    else:
        _print_names()


def _print_names() -> None:
    registries = {
        f"Problems (each also as NAME{REVERSED_SUFFIX}, with its sides swapped)": PROBLEMS,
        "Hparam sets": HPARAMS,
        "Models": MODELS,
        "Metrics": METRICS,
    }
    width = max(len(name) for registry in registries.values() for name in registry.names())
    for title, registry in registries.items():
        print(f"{title}:")
        for name in registry.names():
            print(f"  {name:{width}}  {registry.summary(name)}")


def _print_entry(name: str) -> None:
    """Prints everything with this name: problem, set, model and settings."""
    name = HParams.current_name(name)
    describers = {PROBLEMS: _describe_problem, HPARAMS: _describe_set}
    describers |= {MODELS: _describe_model, METRICS: _describe_metric}
    found = [registry for registry in describers if _is_in(name, registry)]
    settings = [each for each in (HParams, DecodeHParams) if name in each.names()]
    for each in settings:
        print(f"setting {name} (--{each.FLAG}={name}=VALUE), default {getattr(each(), name)}")
        print(meaning(each, name) or name.replace("_", " "))
    if not found and not settings:
        names = {known for registry in describers for known in registry.names()}
        hint = nearest(name, names)
        raise UserError(
            f"--registry_help: no problem, hparams set, model or metric has the name '{name}'{hint}", status=2
        )
    for registry in found:
        print(f"{registry.kind} {name} (--{registry.flag}={name})")
        describers[registry](name)


def _is_in(name: str, registry: Registry) -> bool:
    return name in registry or (registry is PROBLEMS and name.removesuffix(REVERSED_SUFFIX) in registry)


def _describe_set(name: str) -> None:
    """Prints a set's settings; a star marks values that differ from the parent's."""
    print(inspect.getdoc(HPARAMS[name]) or "no documentation")
    values = dataclasses.asdict(HPARAMS[name]())
    parent = HPARAMS.parent(name)
    inherited = dataclasses.asdict(HPARAMS[parent]()) if parent else values
    print(f"parent: {parent}; a star marks different values" if parent else "parent: none")
    print("for the meaning of a setting: --registry_help=SETTING")
    width = max(map(len, values))
    for setting, value in values.items():
        differs = value != inherited[setting]
        line = f"{'*' if differs else ' '} {setting:{width}}  {value}"
        print(f"{line}  ({parent}: {inherited[setting]})" if differs else line)


def _describe_problem(name: str) -> None:
    problem = get_problem(name)
    print(inspect.getdoc(problem) or "no documentation")
    if problem.is_reversed:
        print("with its sides swapped")
    settings = {setting: getattr(problem, setting) for setting in typing.get_type_hints(Problem)}
    sources, flags = settings.pop("sources"), settings.pop("flags")
    if "decode_hparams" in settings:
        settings["decode_hparams"] = ",".join(
            f"{field}={value}" for field, value in dataclasses.asdict(problem.decode_hparams).items()
        )
    width = max(map(len, settings))
    for setting, value in settings.items():
        print(f"  {setting:{width}}  {value}")
    print("sources:" if sources else "sources: none")
    for source in sources:
        print(f"  {source.name}  {getattr(source, 'url', '')}".rstrip())
    if flags:
        print("additional flags for t2t-lite-datagen:")
    for flag, text in flags.items():
        print(f"  --{flag}  {text.replace('%%', '%')}")
    if (origin := PROBLEMS.origin(problem.data_name)) is not None:
        print(f"from the plug-in {origin.where}")


def _describe_model(name: str) -> None:
    # Only the summary: the model itself would import Keras.
    print(MODELS.summary(name) or "no documentation")


def _describe_metric(name: str) -> None:
    print(METRICS.summary(name) or "no documentation")
    best = "highest" if METRICS.fact(name, "higher_is_better", True) else "lowest"
    print(f"of {needs_of(name)}; the {best} is the best; in evaluations it is called {figure_of(name)}")
