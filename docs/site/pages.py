"""Makes the pages of the reference: the flags of all commands, all registered names, and the Python API."""

import argparse
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

from options import OPTION_CLASSES

import t2t_lite
import t2t_lite.bin
from t2t_lite.bin.cli.flags import as_flags
from t2t_lite.registry import PROBLEMS, REGISTRIES

# The parts of the Python API: for each heading, the public names of these modules.
_MODULES = {
    "Functions and classes": "t2t_lite",
    "Layers": "t2t_lite.layers",
    "The base class of layers": "t2t_lite.layers.base",
    "Models": "t2t_lite.models",
    "Losses": "t2t_lite.losses",
    "Schedules": "t2t_lite.schedules",
    "Problems": "t2t_lite.data.problem",
    "Mixtures": "t2t_lite.data.mixture",
    "Registries": "t2t_lite.registry",
    "Options of plug-ins": "t2t_lite.options",
}


def commands() -> dict[str, argparse.ArgumentParser]:
    """Returns the parser of each command, by its name."""
    modules = [f"t2t_lite.bin.{module.name}" for module in pkgutil.iter_modules(t2t_lite.bin.__path__)]
    parsers = [importlib.import_module(name).make_parser() for name in modules if name != "t2t_lite.bin.cli"]
    return {parser.prog: parser for parser in parsers}


def commands_page() -> str:
    """Returns the page with the flags of every command, apart from options that docs/options.md describes."""
    parts = [
        "# Commands\n\nThis page has the flags of each command, as `--help` prints them. Options that are also "
        "keywords of Python functions are in [Settings and options](options.md). Every command has the [flags of all "
        "commands](#flags-of-all-commands).\n"
    ]
    common = _common_flags()
    parts.append("\n## Flags of all commands\n\n" + _table(["flag", "meaning"], map(_row, common.values())))
    for name, parser in sorted(commands().items()):
        actions = [action for action in parser._actions if _name(action) not in common]
        options = [action for action in actions if _is_option(action)]
        rows = [_row(action) for action in actions if action not in options]
        also = f"\nOptions: {', '.join(f'`{_name(action)}`' for action in options)}.\n" if options else ""
        parts.append(f"\n## `{name}`\n\n{parser.description}\n\n{_table(['flag', 'meaning'], rows)}{also}")
    return "".join(parts)


def _common_flags() -> dict[str, argparse.Action]:
    of_each = [{_name(action): action for action in parser._actions} for parser in commands().values()]
    return {name: action for name, action in of_each[0].items() if all(name in others for others in of_each)}


def _name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else action.dest


def _is_option(action: argparse.Action) -> bool:
    """Returns whether a flag is an option that docs/options.md describes."""
    return any(
        _name(action) == f"--{kind.option(name).flag or name}"
        and (action.help or "").startswith(as_flags(kind.option(name).help))
        for kind in OPTION_CLASSES
        for name in kind.declared()
    )


def _row(action: argparse.Action) -> tuple[str, str]:
    value = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper())
    takes = "" if action.nargs == 0 or not action.option_strings else f"={value}"
    text = (action.help or "").replace("%%", "%").replace("%(default)s", str(action.default))
    return f"`{_name(action)}{takes}`", text


def registry_page() -> str:
    """Returns the page with everything that is registered."""
    parts = [
        "# Registered names\n\nThis page answers which problems, hparam sets, layers and so on there are. Settings "
        "and flags select them by name; `--registry_help=NAME` describes one of them, "
        "and [plug-ins](plugins.md) add others.\n"
    ]
    for registry in REGISTRIES:
        names = [name for name in registry.names() if registry.source(name) is None]
        also = (
            " Each problem is also available as `NAME_rev`, with its sides swapped.\n" if registry is PROBLEMS else ""
        )
        rows = [(f"`{name}`", registry.summary(name)) for name in names]
        title = f"{registry.kind[0].upper()}{registry.kind[1:]}s"
        parts.append(f"\n## {title}\n\n`--{registry.flag}=NAME`\n{also}\n{_table(['name', 'meaning'], rows)}")
    return "".join(parts)


def _table(head: Sequence[str], rows: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> str:
    lines = [f"| {left} | {right} |" for left, right in [head, ["---", "---"], *(map(_escaped, row) for row in rows)]]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Returns a text for a cell: what is between angle brackets would be HTML."""
    return text.replace("|", "\\|") if "`" in text else re.sub(r"([|<>*_])", r"\\\1", text)


def api_page() -> str:
    """Returns the page with the signatures and docstrings of the Python API."""
    about = "This page answers which functions and classes there are. [Python](python.md) has examples."
    parts, listed = [f"# Python API\n\n{about} `t2t` stands for `t2t_lite`.\n"], set[int]()
    for title, module in _MODULES.items():
        found = importlib.import_module(module)
        parts.append(f"\n## {title}\n\n{inspect.getdoc(found)}\n\n```{{eval-rst}}\n.. currentmodule:: {module}\n\n")
        new = {name: each for name, each in public(found).items() if id(each) not in listed}
        listed |= set(map(id, new.values()))
        parts += [_entry(name, each) for name, each in new.items()]
        parts.append("```\n")
    return "".join(parts)


def public(module: ModuleType) -> dict[str, object]:
    """Returns what a module makes public: the names in `__all__`, else what it defines."""
    if hasattr(module, "__all__"):
        found = {name: getattr(module, name) for name in sorted(module.__all__)}
        return {name: each for name, each in found.items() if not inspect.ismodule(each)}
    defined = {name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
    return {name: each for name, each in sorted(defined.items()) if not name.startswith("_") and callable(each)}


def _entry(name: str, item: object) -> str:
    if inspect.isclass(item):
        return f".. autoclass:: {name}\n   :members:\n\n"
    return f".. autofunction:: {name}\n\n" if callable(item) else f".. autodata:: {name}\n   :no-value:\n\n"


PAGES: dict[str, Callable[[], str]] = {"commands.md": commands_page, "registered.md": registry_page, "api.md": api_page}
