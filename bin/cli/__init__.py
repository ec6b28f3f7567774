"""The code that all commands share: the parser, argument types and error handling."""

from t2t_lite.bin.cli.arguments import (
    choice_type,
    is_remote,
    numbers,
    path,
    paths,
    positive_number,
    truth,
    truth_or_auto,
    whole_number,
)
from t2t_lite.bin.cli.command_parser import CommandParser
from t2t_lite.bin.cli.run import end_at_second_signal, print_table, program, run, say, table, warn

__all__ = [
    "CommandParser",
    "choice_type",
    "end_at_second_signal",
    "is_remote",
    "numbers",
    "path",
    "paths",
    "positive_number",
    "print_table",
    "program",
    "run",
    "say",
    "table",
    "truth",
    "truth_or_auto",
    "warn",
    "whole_number",
]
