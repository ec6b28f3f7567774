"""Writes the page of all settings and options: python docs/site/options.py docs/options.md."""

import importlib
import importlib.metadata
import sys
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import get_args, get_type_hints

from t2t_lite.bin import cli
from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.decoding.options import DecodeOptions, EngineOptions
from t2t_lite.evaluation.options import EvalOptions
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.importing.options import ImportOptions
from t2t_lite.options import TYPE_NAMES, Options
from t2t_lite.registry import REGISTRIES_OF_SETTINGS
from t2t_lite.serving.options import ServingOptions
from t2t_lite.training.options import TrainOptions

_HEAD = """# Settings and options

This page answers which settings and options there are, with their defaults and ranges.

An option is a flag of the command and a keyword of the function in its heading. A setting is passed in the flag or
class in its heading; `--registry_help=NAME` describes it. The other flags of each command stand at the end. This page
is generated from the declarations by `python docs/site/options.py docs/options.md`.
"""
_PAGES = {
    "Settings of models and training: `--hparams=NAME=VALUE,...`, `HParams`": HParams,
    "Settings of the search: `--decode_hparams=NAME=VALUE,...`, `DecodeHParams`": DecodeHParams,
    "Options of `t2t-lite-trainer` and `t2t_lite.train`": TrainOptions,
    "Options of `t2t-lite-decoder` and `t2t-lite-serve`": DecodeOptions,
    "Options of engines: `t2t_lite.Translator.from_run_dir`, `from_export`": EngineOptions,
    "Options of `t2t-lite-eval` and `t2t_lite.evaluate`": EvalOptions,
    "Options of `t2t-lite-export` and `t2t_lite.export`": ExportOptions,
    "Options of `t2t-lite-import` and `t2t_lite.import_model`": ImportOptions,
    "Options of `t2t-lite-serve`": ServingOptions,
    "Options of `t2t-lite-datagen` and `t2t_lite.generate_data`": GenerateOptions,
}

_COMMON = "Flags of all commands, the last one of those that open run directories"
OPTION_CLASSES = tuple(_PAGES.values())


def reference() -> str:
    pages: dict[str, type[Options]] = {**_PAGES, _COMMON: cli.RunFlags}
    for command in sorted(importlib.metadata.distribution("t2t-lite").entry_points):
        if command.group == "console_scripts":
            pages[f"Other flags of `{command.name}`"] = importlib.import_module(command.module).make_parser().flags
    return _HEAD + "".join(f"\n## {title}\n\n{_table(kind)}" for title, kind in pages.items())


def _table(kind: type[Options]) -> str:
    lines = ["| name | takes | default | meaning |", "|---|---|---|---|"]
    hints, is_command = get_type_hints(kind), issubclass(kind, cli.Flags) and kind is not cli.RunFlags
    for name in [name for name in kind.declared() if not (is_command and name in cli.RunFlags.declared())]:
        option, default = kind.option(name), getattr(kind, name)
        kinds = get_args(hints[name]) if isinstance(hints[name], UnionType) else (hints[name],)
        first = next(each for each in kinds if each is not NoneType)
        registry = REGISTRIES_OF_SETTINGS.get(name) if kind is HParams else None
        names = [each for each in registry if registry.source(each) is None] if registry else option.choices
        bounds = "" if names else option.rule(first)
        kind_of_value = "a string" if PathLike in kinds else TYPE_NAMES.get(first, "a list")
        takes = " or ".join(names) or ", ".join(filter(None, (kind_of_value, bounds)))
        said = option.unset or (f"`{default}`" if default not in ("", None, ()) else "")
        called = option.flag if is_command and option.flag else f"{option.flag}`, `{name}" if option.flag else name
        lines.append(f"| `{called}` | {takes} | {said} | {option.help.replace('<', '&lt;')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
