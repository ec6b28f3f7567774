"""The code that all commands share: the parser, argument types and error handling."""

from t2t_lite.bin.cli.display import CommandDisplay, print_table, say, say_next, table, warn
from t2t_lite.bin.cli.flags import (
    Flags,
    Paths,
    RunFlags,
    choice_type,
    given,
    is_remote,
    load_plugins,
    path,
    paths,
    positive_number,
    trust_plugins,
    truth,
    whole_number,
)
from t2t_lite.bin.cli.run import CommandParser, end_at_second_signal, parse_with_problem, program, run
