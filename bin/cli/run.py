"""Runs a command: turns errors into one line and an exit status, and restores the process state."""

import atexit
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from t2t_lite.bin.cli.command_parser import PROGRAM
from t2t_lite.bin.cli.process_state import restored_process_state, utf8_output
from t2t_lite.bin.cli.system_errors import message_of
from t2t_lite.errors import UserError, as_flags
from t2t_lite.installed import missing_package
from t2t_lite.log import LOG
from t2t_lite.quiet import prepare_process

if TYPE_CHECKING:
    import rich.table


def run(
    command: str,
    body: Callable[[Sequence[str]], int | None],
    argv: Sequence[str] | None,
    one_heap: bool = False,
    exit_at_once: bool = False,
) -> int:
    """Runs a command, in its own process or inside another program, such as a notebook.

    Args:
      command: its name without "t2t-lite-".
      body: executes the command, given the flags, and returns its exit status, None for 0; or raises `SystemExit`.
      argv: the flags; None: those of this process, which then belongs to the command.
      one_heap: whether to keep all threads on one heap if the process belongs to the command, see `use_one_heap`.
      exit_at_once: whether to end the process here, if it belongs to the command and no exception ended that. Python
        would take seconds to free TensorFlow's graphs one by one: two for a small model, ten for the paper's.

    Returns:
      the exit status: 0; 2 for wrong usage; 1, or the status of the error, after an error that the user can fix. Such
      errors are printed as one line on standard error. With --debug they are raised.
    """
    flags = sys.argv[1:] if argv is None else list(argv)
    if argv is None:  # not inside another program, because it cannot be undone
        prepare_process("--debug" in flags)
        if one_heap:
            from t2t_lite.startup import use_one_heap

            use_one_heap()
    try:
        with (
            restored_process_state(),
            utf8_output(),
            _warnings_printed(),
            _errors_as_one_line(PROGRAM.format(command), "--debug" in flags),
        ):
            status = body(flags) or 0
            sys.stdout.flush()
            if exit_at_once and argv is None:
                _end_process(status)
    except BrokenPipeError:
        if argv is None:
            # The reader of our output is gone; Python would report that again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    return status


def _end_process(status: int) -> NoReturn:
    """Ends the process, after what was registered to happen at its exit."""
    atexit._run_exitfuncs()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(status)


def program(command: str) -> list[str]:
    """Returns what executes a command of the package, given its name without "t2t-lite-", in a process of its own."""
    return [sys.executable, "-c", f"import sys; from t2t_lite.bin.{command} import main; sys.exit(main())"]


class _Printer(logging.Handler):
    """Prints the warnings of the library."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints one."""
        warn(record.getMessage())


@contextlib.contextmanager
def _warnings_printed() -> Iterator[None]:
    """Prints the library's warnings inside the block, and hides them from the handlers of the program around it."""
    handlers, propagate, level = LOG.handlers[:], LOG.propagate, LOG.level
    LOG.handlers[:], LOG.propagate = [_Printer(logging.WARNING)], False
    LOG.setLevel(logging.WARNING)
    try:
        yield
    finally:
        LOG.handlers[:], LOG.propagate = handlers, propagate
        LOG.setLevel(level)


@contextlib.contextmanager
def _errors_as_one_line(program: str, debug: bool) -> Iterator[None]:
    """Turns an error that the user can fix, raised inside the block, into one line and an exit status."""
    try:
        yield
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except (UserError, OSError) as error:
        if debug:
            if isinstance(error, UserError):
                error.args = (as_flags(str(error)),)
            raise
        if isinstance(error, UserError):
            print(f"{program}: error: {as_flags(str(error))}", file=sys.stderr)
            raise SystemExit(error.status) from None
        print(f"{program}: error: {message_of(error)}", file=sys.stderr)
        raise SystemExit(1) from None
    except ModuleNotFoundError as error:
        missing = None if debug else missing_package(error)
        if missing is None:
            raise
        print(f"{program}: error: {missing}", file=sys.stderr)
        raise SystemExit(1) from None


def say(line: str) -> None:
    """Prints a line of the library; it names arguments as flags, see `as_flags`."""
    print(as_flags(line), flush=True)


def warn(line: str) -> None:
    """Prints a line of the library on standard error, see `say`."""
    print(as_flags(line), file=sys.stderr)


def print_table(table: "rich.table.Table") -> None:
    """Prints a `rich.table.Table` in its full width; lines longer than the terminal are better than cut ones."""
    import rich.console

    console = rich.console.Console(highlight=False, width=10_000)
    console.width = console.measure(table).maximum
    console.print(table)
