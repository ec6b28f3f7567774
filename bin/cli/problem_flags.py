"""Flags that the problem brings which is asked for: --problem=text_pairs has --train_source, for example."""

import argparse
from collections.abc import Sequence

from t2t_lite.bin import cli
from t2t_lite.bin.cli.command_parser import value_of


def parse_with_problem(parser: cli.CommandParser, argv: Sequence[str]) -> argparse.Namespace:
    """Loads all that is registered and parses `argv`, with the flags of the problem that --problem names.

    Returns:
      the arguments; `options` holds the values of the problem's own flags.
    """
    from t2t_lite.data.problem import REVERSED_SUFFIX
    from t2t_lite.plugins import load_all
    from t2t_lite.registry import PROBLEMS

    name, usr_dir = (value_of(argv, flag) or "" for flag in ("--problem", "--t2t_usr_dir"))
    load_all(cli.path(usr_dir) if usr_dir else None)
    name = name if name in PROBLEMS else name.removesuffix(REVERSED_SUFFIX)
    if name and value_of(argv, "--registry_help") is None and not {"-h", "--help"} & set(argv):
        PROBLEMS.check(name)  # before its flags are called unknown
    flags, switches = (PROBLEMS[name].flags, PROBLEMS[name].switches) if name in PROBLEMS else ({}, ())
    group = parser.add_argument_group(f"what {name} is made of") if flags else parser
    for flag, text in flags.items():
        value = {"nargs": "?", "const": "True"} if flag in switches else {}
        group.add_argument(f"--{flag}", metavar="VALUE", help=text, **value)
    arguments = parser.parse_args(argv)
    arguments.problem_options = {flag: value for flag in flags if (value := getattr(arguments, flag)) is not None}
    return arguments
