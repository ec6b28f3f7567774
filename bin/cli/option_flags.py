"""Flags that are made of declared options, see `t2t_lite.options`."""

import argparse
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, get_args, get_origin, get_type_hints

from t2t_lite.bin.cli import arguments as types
from t2t_lite.errors import as_flags
from t2t_lite.options import Option, Options

DEVICES = ("strategy", "num_gpus", "virtual_devices", "max_tokens_per_replica", "xla_compile", "peak_tflops")


def add_options(add: Callable[..., argparse.Action], kind: type[Options], *names: str) -> None:
    """Adds options as flags, with their defaults; `add` is the `add_argument` of a parser or group."""
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
            add(flag, type=_type(name, option, hint), default=default, metavar=metavar, help=text)


def given(arguments: argparse.Namespace, kind: type[Options]) -> dict[str, Any]:
    """Returns the options of a class that parsed arguments have, without those that are None."""
    values = {name: getattr(arguments, kind.option(name).flag or name, None) for name in kind.declared()}
    return {name: value for name, value in values.items() if value is not None}


def _type(name: str, option: Option, hint: object) -> Callable[[str], object]:
    """Returns the argument type of an option."""
    if get_origin(hint) is tuple:
        return types.listed
    if option.choices:
        return types.one_of(option.choices, name)
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
