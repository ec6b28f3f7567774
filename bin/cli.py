"""What the commands share: flags that know their neighbours, errors for people."""

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator

from t2t_lite.errors import UserError, nearest


class Parser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations and names the flags nearest to an unknown one.

    Args:
      description: what the command does.
      plugins: whether it uses what plug-ins register.
    """

    def __init__(self, description: str, plugins: bool = True):
        super().__init__(description=description, allow_abbrev=False)
        self.add_argument("--debug", action="store_true", help="show the traceback of an error")
        if plugins:
            self.add_argument(
                "--t2t_usr_dir",
                type=path,
                metavar="DIR",
                help="a folder with Python files of yours that register problems, hparam sets or models",
            )

    def parse_args(self, args=None, namespace=None):
        """Parses; an unknown flag ends the program with status 2, before a missing one is complained of."""
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        for argument in sys.argv[1:] if args is None else args:
            name = argument.split("=")[0]
            if name.startswith("--") and name not in flags:
                self.error(f"unknown flag {name}{nearest(name, flags)}")
        return super().parse_args(args, namespace)

    def error(self, message: str):
        """Ends the program with one line and status 2."""
        print(f"{self.prog}: error: {message} (--help lists all flags)", file=sys.stderr)
        raise SystemExit(2)


def run(command: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> None:
    """Runs a command; an error that the user can mend becomes one line on standard error and an exit status.

    With --debug every error is shown with its traceback.
    """
    with errors_for_people(arguments.debug):
        command(arguments)
        sys.stdout.flush()


@contextlib.contextmanager
def errors_for_people(debug: bool) -> Iterator[None]:
    """Turns an error inside the block that the user can mend into a line and an exit status."""
    program = os.path.basename(sys.argv[0])
    sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale: what the files hold is UTF-8 too
    try:
        yield
    except UserError as error:
        if debug:
            raise
        print(f"{program}: error: {error}", file=sys.stderr)
        raise SystemExit(error.status) from None
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:
        # The reader of our output has gone; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as error:
        if debug:
            raise
        print(f"{program}: error: {error.filename or 'writing'}: {error.strerror or error}", file=sys.stderr)
        raise SystemExit(1) from None


def path(text: str) -> str:
    """An argument that names a file or directory; "~" stands for the home directory."""
    return os.path.expanduser(text)


def whole_number(least: int) -> Callable[[str], int]:
    """Returns an argument type: a whole number from `least` to 2**31 - 1."""

    def parse(text: str) -> int:
        if not text.lstrip("-").isdigit() or not least <= int(text) < 2**31:
            raise argparse.ArgumentTypeError(f"takes a whole number from {least} to {2**31 - 1}, not '{text}'")
        return int(text)

    return parse


def truth(text: str) -> bool:
    """An argument that is true or false, in any case; 1 and 0 are taken, too."""
    truths = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in truths:
        raise argparse.ArgumentTypeError(f"takes True or False, not '{text}'")
    return truths[text.lower()]


def positive_number(text: str) -> float:
    """An argument that is a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"takes a number above 0, not '{text}'")
    return number


def print_table(table) -> None:
    """Prints a `rich.table.Table` in its full width, whatever the terminal's: a long line is better than a cut one."""
    import rich.console

    console = rich.console.Console(highlight=False, width=10_000)
    console.width = console.measure(table).maximum
    console.print(table)
