"""The flags of the commands: their declarations and types; what they mean for plug-ins."""

import argparse
import dataclasses
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, TypeAlias, get_args, get_type_hints

from t2t_lite.aliases import alias_hint
from t2t_lite.errors import nearest
from t2t_lite.files import split_paths
from t2t_lite.options import Option, Options, option, parse_bool
from t2t_lite.plugins import load_all, trust

Paths: TypeAlias = Sequence[str | PathLike]


@dataclasses.dataclass(frozen=True)
class Flags(Options):
    """The flags of all commands. Each command declares its flags in a subclass, in the order of --help.

    Subclasses are made frozen dataclasses, so that `Options` finds their fields, but without the methods of objects,
    because there are none: the parsed flags are an `argparse.Namespace`. A field whose value is a class of options
    stands for their flags.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(init=False, repr=False, eq=False, frozen=True)(cls)

    debug: bool = option(False, "show the traceback of an error, and TensorFlow's log output")
    registry_help: str | None = option(
        None,
        "list everything that is registered (problems, hparam sets, models ...), or describe NAME, and exit",
        metavar="NAME",
        bare="",
    )
    t2t_usr_dir: str | None = option(
        None,
        "a folder with your own Python files that register problems, hparam sets, models, metrics and so on",
        metavar="DIR",
        parse=os.path.expanduser,
    )


class RunFlags(Flags):
    """The flags of all commands that open run directories, which may name plug-ins."""

    trust_plugins: bool = option(
        False,
        "permanently trust the folder of --t2t_usr_dir and the folders that the run names: their code runs whenever a "
        "run names them",
    )


def as_flags(message: str) -> str:
    """Rewrites the arguments in a message as flags: `data_dir=x` becomes --data_dir=x."""
    first, end, others = message.partition("\n")  # later lines are not ours, for example a plug-in's traceback
    return re.sub("`([a-z][a-z0-9_]*(?:=[^`]*)?)`", r"--\1", first) + end + others


def given(arguments: argparse.Namespace, kind: type[Options]) -> dict[str, Any]:
    """Returns the options of the class `kind` in the parsed arguments, except those that are None."""
    values = {name: getattr(arguments, name, None) for name in kind.declared()}
    return {name: value for name, value in values.items() if value is not None}


def load_plugins(arguments: argparse.Namespace, runs: Sequence[str] | None = None) -> None:
    """Loads everything that is registered. Given run directories, also does what `trust_plugins` does."""
    load_all(arguments.t2t_usr_dir)
    if runs is not None:
        trust_plugins(arguments, runs)


def trust_plugins(arguments: argparse.Namespace, runs: Sequence[str]) -> None:
    """With --trust_plugins, trusts the user's folder and the folders that the run directories name."""
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


def declared_flags(kind: type[Options], group: str = "") -> Iterator[tuple[str, Option, list[str], dict[str, Any]]]:
    """Yields the group, declaration, and arguments of `add_argument` of each flag in order."""
    hints = get_type_hints(kind)
    for name in kind.names():
        default, declared = getattr(kind, name), kind.option(name)
        if isinstance(default, type) and issubclass(default, Options):
            yield from declared_flags(default, group)
        elif name in kind.declared():
            group = declared.group or group
            yield group, declared, *_argument(name, declared, default, hints[name])


def _argument(name: str, option: Option, default: object, hint: object) -> tuple[list[str], dict[str, Any]]:
    """Returns the arguments of `add_argument` for an option of the type `hint`."""
    says_default = option.unset or (default not in (None, "", False, ()) and "(default" not in option.help)
    text = as_flags(option.help) + (f" (default: {option.unset or default})" if says_default else "")
    arguments: dict[str, Any] = {"help": text.replace("%", "%%")}
    if option.positional:
        names = [name]
    else:
        names = [f"--{option.flag or name}"]
        arguments |= {"dest": name, "required": option.required and not option.one_of}
    if hint is bool and not option.parse:
        return names, arguments | {"action": "store_true"}
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    of_kinds = {
        tuple[str, ...]: _listed,
        Sequence[str]: _listed,
        Sequence[int]: _numbers,
        Paths: paths,
        PathLike: path,
        bool: lambda text: None if text.lower() == "auto" else truth(text),
        int: whole_number(int(option.at_least or 0)),
        float: positive_number if option.above == 0 else lambda text: 0.0 if text == "0" else positive_number(text),
        str: choice_type(option.choices, name) if option.choices else str,
    }
    read = option.parse or next(parse for kind, parse in of_kinds.items() if kind in kinds)
    arguments |= {"type": read, "default": default, "metavar": option.metavar}
    if option.choices and option.parse:  # argparse checks and shows them
        arguments["choices"] = option.choices
    elif option.choices and not option.metavar:
        arguments["metavar"] = "|".join(option.choices)
    if (bool in kinds and not option.parse) or option.bare is not None:
        arguments |= {"nargs": "?", "const": True if option.bare is None else option.bare}
    return names, arguments


# Types of flags. Each parses a string, or raises an error that names the accepted values.


def path(text: str) -> str:
    """Parses the path of a file or directory on this machine. "~" is the home directory."""
    if is_remote(text):
        raise argparse.ArgumentTypeError(
            f"takes a path on this machine, not '{text}'; copy the files here, or mount the bucket"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(
            f"takes a path in UTF-8, not {os.fsencode(text)!r}; rename the file or folder"
        ) from None
    return os.path.expanduser(text)


def is_remote(path: str) -> bool:
    """Returns whether a path is in a file system such as gs:// or s3://."""
    return re.match(r"[a-z][a-z0-9+.-]*://", path, re.IGNORECASE) is not None


def paths(text: str) -> list[str]:
    """Parses paths separated by commas. The path of an existing file or directory may contain commas."""
    parts = split_paths(text)
    if not all(parts):
        raise argparse.ArgumentTypeError(f"takes paths separated by commas, but '{text}' contains an empty path")
    return [path(part) for part in parts]


def joined_paths(text: str) -> str:
    """Returns paths separated by commas as they are; a problem splits them."""
    return text


def whole_number(minimum: int) -> Callable[[str], int]:
    """Returns an argument type for whole numbers from `minimum` to 2**31 - 1."""

    def parse(text: str) -> int:
        if not text.removeprefix("-").isdecimal() or not minimum <= int(text) < 2**31:
            raise argparse.ArgumentTypeError(f"takes a whole number from {minimum} to {2**31 - 1}, not '{text}'")
        return int(text)

    return parse


def choice_type(words: Sequence[str], flag: str) -> Callable[[str], str]:
    """Returns an argument type that accepts one of `words`. `flag` is its flag, for hints."""

    def parse(text: str) -> str:
        if text not in words:
            hint = alias_hint(flag, text) or nearest(text, words)
            raise argparse.ArgumentTypeError(f"takes {' or '.join(words)}, not '{text}'{hint}")
        return text

    return parse


def truth(text: str) -> bool:
    """Parses True or False, in upper or lower case, or 1 or 0."""
    try:
        return parse_bool(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"takes a number above 0, not '{text}'")
    return number


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"takes whole numbers separated by commas, not '{text}'") from None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
