"""Runs a command: its exit status, errors as one line, and the state of the process around it."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from t2t_lite.bin.cli.command_parser import PROGRAM
from t2t_lite.bin.cli.process_state import restored_process_state, utf8_output
from t2t_lite.bin.cli.system_errors import message_of
from t2t_lite.errors import UserError


def run(command: str, body: Callable[[Sequence[str]], None], argv: Sequence[str] | None, one_heap: bool = False) -> int:
    """Runs a command, in a process of its own or in that of another program, such as a notebook.

    Args:
      command: its name without "t2t-lite-".
      body: does it, given the flags; it may raise `SystemExit` with an exit status.
      argv: the flags; None: those of this process, which is then the command's own.
      one_heap: whether a process of its own keeps all threads on one heap, see `use_one_heap`.

    Returns:
      the exit status: 0; 2 for wrong usage; 1, or the error's own, after an error that the user can mend, of which one
      line on standard error tells. With --debug such errors are raised.
    """
    flags = sys.argv[1:] if argv is None else list(argv)
    if one_heap and argv is None:  # which cannot be undone
        from t2t_lite.startup import use_one_heap

        use_one_heap()
    try:
        with restored_process_state(), utf8_output(), _errors_for_people(PROGRAM.format(command), "--debug" in flags):
            body(flags)
            sys.stdout.flush()
    except BrokenPipeError:
        if argv is None:
            # The reader of our output has gone; Python would complain again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as end:
        return end.code or 0
    return 0


@contextlib.contextmanager
def _errors_for_people(program: str, debug: bool) -> Iterator[None]:
    """Turns an error inside the block that the user can mend into a line and an exit status."""
    try:
        yield
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except (UserError, OSError) as error:
        if debug:
            raise
        if isinstance(error, UserError):
            print(f"{program}: error: {error}", file=sys.stderr)
            raise SystemExit(error.status) from None
        print(f"{program}: error: {message_of(error)}", file=sys.stderr)
        raise SystemExit(1) from None


def print_table(table) -> None:
    """Prints a `rich.table.Table` in its full width, whatever the terminal's: a long line is better than a cut one."""
    import rich.console

    console = rich.console.Console(highlight=False, width=10_000)
    console.width = console.measure(table).maximum
    console.print(table)
