"""Flags that a problem adds to a command: --problem=text_pairs adds --train_source, for example."""

import argparse
from collections.abc import Sequence

from t2t_lite.bin import cli
from t2t_lite.bin.cli.command_parser import value_of


def parse_with_problem(parser: cli.CommandParser, argv: Sequence[str]) -> argparse.Namespace:
    """Loads the registries and parses `argv` with the flags of the problem that --problem names: `problem_options`."""
    from t2t_lite.data.problem import REVERSED_SUFFIX
    from t2t_lite.plugins import load_all
    from t2t_lite.registry import PROBLEMS

    name, usr_dir = (value_of(argv, flag) or "" for flag in ("--problem", "--t2t_usr_dir"))
    load_all(cli.path(usr_dir) if usr_dir else None)
    name = name if name in PROBLEMS else name.removesuffix(REVERSED_SUFFIX)
    if name and value_of(argv, "--registry_help") is None and not {"-h", "--help"} & set(argv):
        PROBLEMS.check(name)  # report an unknown problem before its flags are reported as unknown
    flags, switches = (PROBLEMS[name].flags, PROBLEMS[name].switches) if name in PROBLEMS else ({}, ())
    group = parser.add_argument_group(f"data of {name}") if flags else parser
    for flag, text in flags.items():
        nargs, const = ("?", "True") if flag in switches else (None, None)
        group.add_argument(f"--{flag}", metavar="VALUE", help=text, nargs=nargs, const=const)
    arguments = parser.parse_args(argv)
    arguments.problem_options = {flag: value for flag in flags if (value := getattr(arguments, flag)) is not None}
    return arguments
