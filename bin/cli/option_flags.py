"""Flags that commands share: those of declared options and of problems, and --trust_plugins."""

import argparse
import sys
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from t2t_lite.bin import cli
from t2t_lite.bin.cli import arguments as types
from t2t_lite.bin.cli.command_parser import early_value
from t2t_lite.data.problem import REVERSED_SUFFIX
from t2t_lite.errors import as_flags
from t2t_lite.options import Option, Options
from t2t_lite.plugins import load_all, trust
from t2t_lite.registry import PROBLEMS

DEVICES = (
    "strategy",
    "worker_timeout",
    "num_gpus",
    "virtual_devices",
    "max_tokens_per_replica",
    "xla_compile",
    "peak_tflops",
)


def add_options(add: Callable[..., argparse.Action], kind: type[Options], *names: str) -> None:
    """Adds options as flags with their defaults. `add` is the `add_argument` of a parser or group."""
    for name in names:
        option, default = kind.option(name), getattr(kind, name)
        flag = f"--{option.flag or name}"
        said = option.unset or ("" if default in (None, "", False, ()) else str(default))
        text = as_flags(option.help) + (f" (default: {said})" if said else "")
        hint = get_type_hints(kind)[name]
        if hint is bool:
            add(flag, action="store_true", help=text)
        else:
            metavar = option.metavar or "|".join(option.choices) or None
            alone = {"nargs": "?", "const": True} if bool in get_args(hint) else {}  # the bare flag means True
            add(flag, type=_type(name, option, hint), default=default, metavar=metavar, help=text, **alone)


def given(arguments: argparse.Namespace, kind: type[Options]) -> dict[str, Any]:
    """Returns the options of the class `kind` in the parsed arguments, except those that are None."""
    values = {name: getattr(arguments, kind.option(name).flag or name, None) for name in kind.declared()}
    return {name: value for name, value in values.items() if value is not None}


def _type(name: str, option: Option, hint: object) -> Callable[[str], object]:
    if get_origin(hint) is tuple:
        return types.listed
    if option.choices:
        return types.choice_type(option.choices, name)
    kinds = get_args(hint) or (hint,)
    if get_origin(hint) is Sequence:
        return types.listed if kinds == (str,) else types.paths
    of_kinds = {
        PathLike: types.path,
        bool: types.truth_or_auto,
        int: types.whole_number(int(option.at_least or 0)),
        float: types.positive_number if option.above == 0 else types.not_negative,
        str: str,
    }
    return next(parse for kind, parse in of_kinds.items() if kind in kinds)


def trust_plugins(arguments: argparse.Namespace, runs: Sequence[str]) -> None:
    if not arguments.trust_plugins:
        return
    from t2t_lite.runs import run_dir

    folders = []
    if arguments.t2t_usr_dir:
        folders.append(Path(arguments.t2t_usr_dir).resolve())
        trust(folders[0])
    for run in runs:
        folders += run_dir.trust_run_plugins(Path(run))
    for folder in dict.fromkeys(folders):
        print(f"trusted from now on: {folder}", file=sys.stderr)


def parse_with_problem(parser: cli.CommandParser, argv: Sequence[str]) -> argparse.Namespace:
    """Loads the registries and parses `argv`. Values of the problem's own flags become `problem_options`."""
    parser.check_repeated(argv)  # before code of --t2t_usr_dir runs
    name, usr_dir = (early_value(argv, flag) or "" for flag in ("--problem", "--t2t_usr_dir"))
    load_all(cli.path(usr_dir) if usr_dir else None)
    name = name if name in PROBLEMS else name.removesuffix(REVERSED_SUFFIX)
    if name and early_value(argv, "--registry_help") is None and not {"-h", "--help"} & set(argv):
        PROBLEMS.check(name)  # report an unknown problem before its unknown flags
    flags, switches = (PROBLEMS[name].flags, PROBLEMS[name].switches) if name in PROBLEMS else ({}, ())
    group = parser.add_argument_group(f"data of {name}") if flags else parser
    for flag, text in flags.items():
        nargs, const = ("?", "True") if flag in switches else (None, None)
        kind = types.joined_paths if flag in PROBLEMS[name].file_lists else str
        group.add_argument(f"--{flag}", type=kind, metavar="VALUE", help=text, nargs=nargs, const=const)
    arguments = parser.parse_args(argv)
    arguments.problem_options = {flag: value for flag in flags if (value := getattr(arguments, flag)) is not None}
    return arguments
