"""The argument parser of the commands. It suggests the nearest flags for unknown ones, and handles --registry_help."""

import argparse
import collections
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from t2t_lite.aliases import PROGRAMS, alias_hint
from t2t_lite.bin.cli import arguments as types
from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.errors import as_flags, nearest
from t2t_lite.plugins import load_all

PROGRAM = "t2t-lite-{}"


class CommandParser(argparse.ArgumentParser):
    """An argument parser that accepts no abbreviations and suggests the nearest flags for an unknown one.

    `command` is the command's name without "t2t-lite-". `runs`: the command opens run directories, which may name
    plug-ins.
    """

    def __init__(self, command: str, description: str, runs: bool = False) -> None:
        epilog = f"In tensor2tensor: {PROGRAMS[command]}." if command in PROGRAMS else None
        super().__init__(prog=PROGRAM.format(command), description=description, epilog=epilog, allow_abbrev=False)
        self._command = command
        self._removed: dict[str, str] = {}
        self.register("action", None, _Store)
        self.add_argument(
            "--debug", action="store_true", help="show the traceback of an error, and TensorFlow's log output"
        )
        self.add_argument(
            "--registry_help",
            nargs="?",
            const="",
            metavar="NAME",
            help="list everything that is registered (problems, hparam sets, models ...), or describe NAME, and exit",
        )
        self.add_argument(
            "--t2t_usr_dir",
            type=os.path.expanduser,
            metavar="DIR",
            help="a folder with your own Python files that register problems, hparam sets, models, metrics and so on",
        )
        if runs:
            self.add_argument(
                "--trust_plugins",
                action="store_true",
                help="permanently trust the folder of --t2t_usr_dir and the folders that the run names: their code "
                "runs whenever a run names them",
            )

    def removed(self, *flags: str, instead: str) -> None:
        """Declares flags of earlier versions, which are an error that says what to use instead."""
        self._removed.update(dict.fromkeys(flags, instead))

    def parse_args(self, args: Sequence[str], namespace: argparse.Namespace | None = None) -> argparse.Namespace:
        """Parses the arguments. Exits with status 2 on unknown flags, which are reported before missing flags."""
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        names = dict.fromkeys(argument.split("=")[0] for argument in args)
        unknown = [name for name in names if name.startswith("--") and name not in (*flags, "--")]
        if removed := next((name for name in unknown if name in self._removed), None):
            self.error(f"{removed} was removed in 0.10: {self._removed[removed]}")
        if unknown:
            self.error(". ".join(f"unknown flag {name}{self._hint(name, flags)}" for name in unknown))
        if (asked := early_value(args, "--registry_help")) is not None:
            self._print_registry(asked, early_value(args, "--t2t_usr_dir"))
            raise SystemExit(0)
        self.check_repeated(args)
        namespace = namespace or argparse.Namespace()
        return super().parse_args(args, namespace)

    def check_repeated(self, args: Sequence[str]) -> None:
        """Exits with status 2 if a known flag is given twice, unless it is a list that adds up."""
        for flag, count in collections.Counter(argument.split("=")[0] for argument in args).items():
            action = self._option_string_actions.get(flag)
            if count > 1 and action and not _adds_up(action):
                self.error(f"{flag} is given {'twice' if count == 2 else f'{count} times'}; keep one of them")

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {as_flags(message)} (--help lists all flags)", file=sys.stderr)
        raise SystemExit(2)

    def _hint(self, flag: str, flags: Sequence[str]) -> str:
        name = flag.removeprefix("--")
        if message := alias_hint(self._command, name):
            return message
        for settings in (HParams, DecodeHParams):
            if f"--{settings.FLAG}" not in flags:
                continue
            name = settings.current_name(name)
            if name in settings.names():
                return f"; it is a setting: --{settings.FLAG}={name}=VALUE"
            if message := alias_hint(settings.FLAG, name):
                return f"; it is a setting of --{settings.FLAG}{message}"
        return nearest(flag, flags)

    def _print_registry(self, name: str, usr_dir: str | None) -> None:
        load_all(os.path.expanduser(usr_dir) if usr_dir else None)
        from t2t_lite.bin.cli import registry_help

        registry_help.print_registry_help(name)


class _Store(argparse.Action):
    """Stores a flag's value, and adds lists of settings or files up if the flag is given again."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401  of the flag's type
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest, self.default)
        if before is not self.default and before:
            values = [*before, *values] if isinstance(values, list) else f"{before},{values}"
        setattr(namespace, self.dest, values)


def _adds_up(action: argparse.Action) -> bool:
    """Returns whether a flag is a list of settings or of files, which may be given in several parts."""
    return action.dest in (HParams.FLAG, DecodeHParams.FLAG) or action.type in (types.paths, types.joined_paths)


def early_value(args: Sequence[str], flag: str) -> str | None:
    """Returns the value of a flag before the parser knows all flags; "" if it has no value, None if it is missing."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    early.add_argument(flag, nargs="?", const="", dest="value")
    return early.parse_known_args(args)[0].value
