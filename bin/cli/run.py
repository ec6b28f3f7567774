"""Runs a command: parses its flags, turns errors into one line and an exit status, restores the process state.

The parser suggests the nearest flags for unknown ones, and handles --registry_help.
"""

import argparse
import atexit
import collections
import contextlib
import errno
import gc
import io
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from t2t_lite import __version__
from t2t_lite.aliases import PROGRAMS, alias_hint
from t2t_lite.bin.cli.display import print_registry_help, warn
from t2t_lite.bin.cli.flags import Flags, as_flags, declared_flags, joined_paths, path, paths
from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.data.problem import REVERSED_SUFFIX
from t2t_lite.display import LOG
from t2t_lite.errors import UserError, nearest
from t2t_lite.options import Option
from t2t_lite.plugins import load_all
from t2t_lite.registry import PROBLEMS
from t2t_lite.system.installed import missing_package
from t2t_lite.system.tensorflow import keep_freed_memory, prepare_process

PROGRAM = "t2t-lite-{}"
_MORE = " (--help lists all flags)"


def run(
    command: str,
    body: Callable[[Sequence[str]], int | None],
    argv: Sequence[str] | None,
    exit_at_once: bool = False,
    exit_after_error: bool = False,
) -> int:
    """Runs a command in its own process or inside another program, such as a notebook.

    Args:
      command: its name without "t2t-lite-".
      body: executes the command with the flags. It returns the exit status (None for 0) or raises `SystemExit`.
      argv: the flags; None: those of this process, which is then the command's own.
      exit_at_once: whether to end the process here, if it is the command's own and no exception was raised. Otherwise,
        Python frees TensorFlow's graphs one by one, which takes two seconds for a small model and ten for the paper's,
        and waits for the compilation of a search in the background.
      exit_after_error: whether to do the same after an error or Ctrl-C.

    Returns:
      the exit status: 0; 2 for wrong usage; 1, or the error's own status, after an error that the user can fix. Such
      errors are printed as one line on standard error, or raised with --debug.
    """
    flags = sys.argv[1:] if argv is None else list(argv)
    if argv is None:  # only in the command's own process, because it cannot be undone
        prepare_process("--debug" in flags)
        keep_freed_memory()
    try:
        with (
            restored_process_state(),
            utf8_output(),
            _errors_as_one_line(PROGRAM.format(command), "--debug" in flags),
        ):
            # The library's warnings are printed, and hidden from the handlers of the surrounding program.
            LOG.handlers[:], LOG.propagate = [_Printer(logging.WARNING)], False
            LOG.setLevel(logging.WARNING)
            status = body(flags) or 0
            sys.stdout.flush()
            if exit_at_once and argv is None:
                _end_process(status)
    except BrokenPipeError:
        if argv is None:
            # The reader closed the pipe. Python would report that again when it flushes standard output at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = 1 if isinstance(end.code, str) else end.code or 0
        if status and exit_after_error and argv is None:
            with contextlib.suppress(OSError):
                sys.stdout.flush()
            _end_process(status)
    return status


def end_at_second_signal() -> None:
    """Ends this process at once at its second SIGINT or SIGTERM, with 128 plus the signal's number as its status.

    Python runs signal handlers between two instructions of the main thread, which may be in a long call of TensorFlow.
    But it writes the number of each signal to a pipe as soon as the signal arrives, and a thread reads that.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # the signals of a child are its own

    def count() -> None:
        is_second = False
        while True:
            for number in os.read(reader, 1):
                if number not in _SIGNALS:
                    continue
                if is_second:
                    with contextlib.suppress(OSError):
                        if os.isatty(1):
                            os.write(1, b"\x1b[?25h\n")  # a progress bar hides the cursor
                        os.write(2, b"stopped immediately by a second signal\n")
                    os._exit(128 + number)
                is_second = True

    threading.Thread(target=count, daemon=True, name="signals").start()


def _end_process(status: int) -> NoReturn:
    # Python has no public function for this. tests/integration/test_system_errors.py fails if the private one changes.
    atexit._run_exitfuncs()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(status)


def program(command: str) -> list[str]:
    """Returns the program and arguments that run a command in a new process, given its name without "t2t-lite-"."""
    return [sys.executable, "-c", f"import sys; from t2t_lite.bin.{command} import main; sys.exit(main())"]


class _Printer(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


@contextlib.contextmanager
def _errors_as_one_line(program: str, debug: bool) -> Iterator[None]:
    """Turns an error inside the block that the user can fix into one line and an exit status."""
    try:
        yield
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except (UserError, OSError, ModuleNotFoundError) as error:
        if isinstance(error, UserError):
            line = as_flags(str(error))
            error.args = (line,)
        else:
            line = os_error_line(error) if isinstance(error, OSError) else missing_package(error)
        if debug or line is None:
            raise
        print(f"{program}: error: {line}", file=sys.stderr)
        raise SystemExit(error.status if isinstance(error, UserError) else 1) from None


_ADVICE = {
    errno.EACCES: "no permission to read or write it; change its permissions, or use another path",
    errno.EPERM: "operation not permitted; change the permissions, or use another path",
    errno.EROFS: "it is on a read-only file system; use another path",
    errno.ENOENT: "no such file or folder; check the path",
    errno.EEXIST: "it already exists; use another name",
    errno.EISDIR: "it is a folder; pass a file",
    errno.ENOTDIR: "a part of the path is a file, not a folder; check the path",
    errno.ENAMETOOLONG: "the name is too long; use a shorter one",
    errno.ENOSPC: "no space left on the disk; free some space, or use another path",
    errno.EDQUOT: "disk quota exceeded; free some space, or use another path",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ENOMEM: "out of memory; use smaller settings, or close other programs",
    errno.EIO: "the disk cannot be read or written; try another one",
    errno.ELOOP: "its symbolic links form a loop; check the path",
}


def os_error_line(error: OSError) -> str:
    """Returns the message for a system error: where it occurred, and what to do."""
    where = error.filename if error.filename is not None else "writing"
    name = where if len(str(where)) <= 200 else f"{str(where)[:60]}..."
    return f"{name}: {_ADVICE.get(error.errno or 0) or error.strerror or error}"


# Loggers whose level or handlers TensorFlow, `import_tensorflow` and `run` change.
_LOGGERS = ("", "tensorflow", "absl", LOG.name)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def restored_process_state() -> Iterator[None]:
    """Restores the environment, signal handlers, logging, warnings and garbage-collection thresholds at the end.

    Imported modules stay imported, and TensorFlow's configuration (devices, threads) cannot be restored.
    """
    environment, thresholds = dict(os.environ), gc.get_threshold()
    is_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS} if is_main_thread else {}
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    logging_before = [(logger.level, logger.handlers[:], logger.propagate) for logger in loggers]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="(keras|tensorflow|google).*")
            yield
    finally:
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        gc.set_threshold(*thresholds)
        for number, handler in handlers.items():
            if handler is not None:  # None: the handler was not installed from Python
                signal.signal(number, handler)
        for logger, (level, its_handlers, propagate) in zip(loggers, logging_before):
            logger.setLevel(level)
            logger.handlers[:] = its_handlers
            logger.propagate = propagate


@contextlib.contextmanager
def utf8_output() -> Iterator[None]:
    """Makes standard output UTF-8 inside the block, like all files, regardless of the locale.

    It does nothing in a notebook, whose output accepts any character.
    """
    output = sys.stdout
    if not isinstance(output, io.TextIOWrapper):
        yield
        return
    before = {"encoding": output.encoding, "errors": output.errors}
    output.reconfigure(encoding="utf-8")
    try:
        yield
    finally:
        if not output.closed:
            output.reconfigure(**before)


class CommandParser(argparse.ArgumentParser):
    """An argument parser that accepts no abbreviations and suggests the nearest flags for an unknown one.

    Args:
      command: the command's name without "t2t-lite-".
      description: the first lines of --help.
      flags: the class that declares the flags.
      removed: flags of earlier versions, which are an error that says what to use instead.
    """

    def __init__(
        self, command: str, description: str, flags: type[Flags], removed: Mapping[str, str] | None = None
    ) -> None:
        epilog = f"In tensor2tensor: {PROGRAMS[command]}." if command in PROGRAMS else None
        super().__init__(prog=PROGRAM.format(command), description=description, epilog=epilog, allow_abbrev=False)
        self.flags = flags
        self._command = command
        self._removed = removed or {}
        self._declared: list[tuple[argparse.Action, Option]] = []
        self.register("action", None, _Store)
        self.add_argument("--version", action="version", version=f"t2t-lite {__version__}", help=argparse.SUPPRESS)
        one_of: Any = None
        # argparse lists flags in the order in which they are added; those of a group stand together.
        declared = [*declared_flags(flags)]
        for title in dict.fromkeys(group for group, *_ in declared):
            group = self.add_argument_group(title) if title else self
            for _, about, names, rest in (each for each in declared if each[0] == title):
                if about.one_of:
                    one_of = one_of or group.add_mutually_exclusive_group(required=about.required)
                action = (one_of if about.one_of else group).add_argument(*names, **rest)
                self._declared.append((action, about))

    def parse_args(self, args: Sequence[str], namespace: argparse.Namespace | None = None) -> argparse.Namespace:
        """Parses the arguments. Exits with status 2 on unknown flags, which are reported before missing flags."""
        flags = [f"--{name}" for name in self.flag_names]
        names = dict.fromkeys(argument.split("=")[0] for argument in args)
        unknown = [name for name in names if name.startswith("--") and name not in (*flags, "--")]
        if removed := next((name for name in unknown if name in self._removed), None):
            self.error(f"{removed} was removed in 0.10: {self._removed[removed]}")
        if unknown:
            self.error(". ".join(f"unknown flag {name}{self._hint(name, flags)}" for name in unknown))
        if (asked := _early_value(args, "--registry_help")) is not None:
            usr_dir = _early_value(args, "--t2t_usr_dir")
            load_all(os.path.expanduser(usr_dir) if usr_dir else None)
            print_registry_help(asked)
            raise SystemExit(0)
        self.check_repeated(args)
        arguments = super().parse_args(args, namespace or argparse.Namespace())
        shown = {action.dest: f"--{about.flag or action.dest}" for action, about in self._declared}
        values = ((each, getattr(arguments, each[0].dest)) for each in self._declared)
        given = [each for each, value in values if value and value != each[0].default]  # --flag= is like no flag
        given_names = {action.dest for action, _ in given}
        for action, about in given:
            if other := next((name for name in about.excludes if name in given_names), None):
                self.error(f"{shown[action.dest]} and {shown[other]} cannot be combined")
        for action, about in given:
            if missing := next((name for name in about.needs if name not in given_names), None):
                self.error(f"{shown[action.dest]} needs {shown[missing]}")
        return arguments

    @property
    def flag_names(self) -> list[str]:
        """The names of the flags, without hyphens."""
        return [flag[2:] for flag in self._option_string_actions if flag.startswith("--")]

    def is_switch(self, name: str) -> bool:
        """Returns whether a flag takes no value."""
        return self._option_string_actions[f"--{name}"].nargs == 0

    def checked(self, flags: Sequence[str]) -> argparse.Namespace:
        """Parses some flags, whatever else the command needs. Raises UserError if one is wrong."""
        printed = io.StringIO()
        for action in self._actions:
            action.required = False
        with contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
            return super().parse_args(flags)
        message = printed.getvalue().strip().removeprefix(f"{self.prog}: error: ").removesuffix(_MORE)
        raise UserError(re.sub("^argument .*?: ", "", message))

    def add_problem_flags(self, name: str) -> Collection[str]:
        """Adds the flags of a problem, and returns their names."""
        problem = PROBLEMS[name]
        group = self.add_argument_group(f"data of {name}") if problem.flags else self
        for flag, text in problem.flags.items():
            nargs, const = ("?", "True") if flag in problem.switches else (None, None)
            kind = joined_paths if problem.file_lists & {flag, "*"} else str
            group.add_argument(f"--{flag}", type=kind, metavar="VALUE", help=text, nargs=nargs, const=const)
        return problem.flags

    def check_repeated(self, args: Sequence[str]) -> None:
        """Exits with status 2 if a known flag is given twice, unless it is a list, which may be given in parts."""
        for flag, count in collections.Counter(argument.split("=")[0] for argument in args).items():
            action = self._option_string_actions.get(flag)
            if not action or action.dest in (HParams.FLAG, DecodeHParams.FLAG) or action.type in (paths, joined_paths):
                continue
            if count > 1:
                self.error(f"{flag} is given {'twice' if count == 2 else f'{count} times'}; keep one of them")

    def refuse(self, arguments: argparse.Namespace, names: Sequence[str], why: str) -> None:
        """Exits with status 2 if one of these flags is given. `why` is the message, with {} for the flag."""
        for name in names:
            if getattr(arguments, name):
                flag = next(action.option_strings[0] for action in self._actions if action.dest == name)
                self.error(why.format(flag))

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {as_flags(message)}{_MORE}", file=sys.stderr)
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


def parse_with_problem(parser: CommandParser, argv: Sequence[str]) -> argparse.Namespace:
    """Loads the registries and parses `argv`. Values of the problem's own flags become `problem_options`."""
    parser.check_repeated(argv)  # before code of --t2t_usr_dir runs
    name, usr_dir = (_early_value(argv, flag) or "" for flag in ("--problem", "--t2t_usr_dir"))
    load_all(path(usr_dir) if usr_dir else None)
    name = name if name in PROBLEMS else name.removesuffix(REVERSED_SUFFIX)
    if name and _early_value(argv, "--registry_help") is None and not {"-h", "--help"} & set(argv):
        PROBLEMS.check(name)  # report an unknown problem before its unknown flags
    flags = parser.add_problem_flags(name) if name in PROBLEMS else ()
    arguments = parser.parse_args(argv)
    arguments.problem_options = {flag: value for flag in flags if (value := getattr(arguments, flag)) is not None}
    return arguments


def _early_value(args: Sequence[str], flag: str) -> str | None:
    """Returns the value of a flag before the parser knows all flags; "" if it has no value, None if it is missing."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    early.add_argument(flag, nargs="?", const="", dest="value")
    return early.parse_known_args(args)[0].value
