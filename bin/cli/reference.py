"""Writes the page of all settings and options: python -m t2t_lite.bin.cli.reference docs/options.md."""

import sys
from pathlib import Path
from types import NoneType, UnionType
from typing import get_args, get_type_hints

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
class in its heading; `--registry_help=NAME` describes it. This page is generated from the declarations by
`python -m t2t_lite.bin.cli.reference docs/options.md`.
"""
_PAGES = {
    "Settings of models and training: `--hparams=NAME=VALUE,...`, `HParams`": HParams,
    "Settings of the search: `--decode_hparams=NAME=VALUE,...`, `DecodeHParams`": DecodeHParams,
    "Options of `t2t-lite-trainer` and `t2t_lite.train`": TrainOptions,
    "Options of `t2t-lite-decoder` and `t2t-lite-serve`": DecodeOptions,
    "Options of engines: `t2t_lite.Translator.from_run_dir`, `from_export`": EngineOptions,
    "Options of `t2t-lite-eval` and `t2t_lite.score_split`": EvalOptions,
    "Options of `t2t-lite-export` and `t2t_lite.export`": ExportOptions,
    "Options of `t2t-lite-import` and `t2t_lite.import_model`": ImportOptions,
    "Options of `t2t-lite-serve`": ServingOptions,
    "Options of `t2t-lite-datagen` and `t2t_lite.generate_data`": GenerateOptions,
}

OPTION_CLASSES = tuple(_PAGES.values())


def reference() -> str:
    tables = [f"\n## {title}\n\n{_table(kind)}" for title, kind in _PAGES.items()]
    return _HEAD + "".join(tables)


def _table(kind: type[Options]) -> str:
    lines = ["| name | takes | default | meaning |", "|---|---|---|---|"]
    hints = get_type_hints(kind)
    for name in kind.declared():
        option, default = kind.option(name), getattr(kind, name)
        kinds = get_args(hints[name]) if isinstance(hints[name], UnionType) else (hints[name],)
        first = next(each for each in kinds if each is not NoneType)
        registry = REGISTRIES_OF_SETTINGS.get(name) if kind is HParams else None
        names = [each for each in registry if registry.source(each) is None] if registry else option.choices
        bounds = "" if names else option.rule(first)
        takes = " or ".join(names) or ", ".join(filter(None, (TYPE_NAMES.get(first, "a list"), bounds)))
        said = option.unset or (f"`{default}`" if default not in ("", None, ()) else "")
        name = f"{option.flag}`, `{name}" if option.flag else name
        lines.append(f"| `{name}` | {takes} | {said} | {option.help} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
