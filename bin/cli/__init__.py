"""What the commands share: the parser, types of arguments, errors for people."""

from t2t_lite.bin.cli.arguments import one_of, path, positive_number, truth, whole_number
from t2t_lite.bin.cli.command_parser import CommandParser
from t2t_lite.bin.cli.run import print_table, run

__all__ = ["CommandParser", "one_of", "path", "positive_number", "print_table", "run", "truth", "whole_number"]
