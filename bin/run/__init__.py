"""t2t-lite-run: does every step that a file describes and that is not done yet, from the data to the exports."""

import argparse
import contextlib
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.bin.run.recipe import Recipe
from t2t_lite.bin.run.steps import STEPS, Step, steps_of
from t2t_lite.display import Display, format_duration
from t2t_lite.errors import UserError
from t2t_lite.files import make_folder
from t2t_lite.options import option
from t2t_lite.report.writing import check_packages
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.system.locks import locked
from t2t_lite.training.launcher import end_with_parent

_EXAMPLES = ("text", "libretranslate", "multi30k", "wmt_ende", "parsing", "grammar")  # files in examples/


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("run", _run, argv)


class Flags(cli.Flags):
    config: PathLike | None = option(None, "the file that describes what to make (TOML)", metavar="FILE")
    example: str | None = option(
        None, "print an example of such a file and exit", bare="text", choices=_EXAMPLES, parse=str
    )
    until: str | None = option(None, f"stop after the last step of this name: {', '.join(STEPS)}", metavar="STEP")
    redo: str | None = option(
        None, "remove what this step made, and do it and what depends on it again", metavar="STEP"
    )
    dry_run: bool = option(False, "only print the commands of the steps")


def make_parser() -> cli.CommandParser:
    return cli.CommandParser("run", "Do every step that a file describes. Run it again to go on.", Flags)


def _run(flags: Sequence[str]) -> int:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    if arguments.example:
        example = Path(__file__).parent / "examples" / f"{arguments.example}.toml"
        print(example.read_text(encoding="utf-8"), end="")
        return 0
    if not arguments.config:
        parser.error("--config is required; --example prints such a file")
    cli.load_plugins(arguments)
    file = Path(arguments.config).absolute()
    if not file.is_file():
        raise UserError(f"`config`: there is no {file}; --example prints such a file")
    more = [f"--t2t_usr_dir={Path(arguments.t2t_usr_dir).absolute()}"] if arguments.t2t_usr_dir else []
    with contextlib.chdir(file.parent):  # to which all paths in the file are relative
        return _make(arguments, file, more)


def _make(arguments: argparse.Namespace, file: Path, more: Sequence[str]) -> int:
    recipe = Recipe(Path(file.name))
    steps = [step._replace(flags=[*step.flags, *more]) for step in steps_of(recipe)]
    steps, redone = _asked_steps(steps, arguments.until, arguments.redo, file.name)
    if arguments.dry_run:
        print(f"cd {shlex.quote(str(file.parent))}")
        for step in steps:
            is_done = step.title not in redone and _state(step)
            print(f"# {step.title}{': already done' if is_done else ''}\n{step.line}")
        return 0
    if steps[-1].name == "report":  # not only after the training
        check_packages()
    make_folder(recipe.dir / "logs", "dir")
    try:
        with locked(recipe.dir / "logs" / "run.lock", wait=False):
            status = _do(steps, redone, recipe.dir / "logs")
    except BlockingIOError as error:
        raise UserError(f"another t2t-lite-run works in {recipe.dir}; wait until it ends") from error
    if not status and not arguments.until:
        for step in (step for step in steps if "--format=ctranslate2" in step.flags):
            cli.say_next("serve", f"--export_dir={Path(*step.results()).absolute()}")
    return status


def _do(steps: Sequence[Step], redone: Sequence[str], logs: Path) -> int:
    for step in (step for step in steps if step.title not in redone):
        _check_kept(step)
    for step in steps:
        how, started, is_redone = "already done", time.monotonic(), step.title in redone
        if is_redone or not (state := _state(step)):
            if is_redone or (state is None and step.command == "datagen"):
                _remove(step)
            if status := _execute(step, logs):
                return status
            how = f"done in {format_duration(time.monotonic() - started)}"
        cli.say(f"{step.title}: {how}: {', '.join(map(str, step.results()))}")
    return 0


def _asked_steps(steps: list[Step], until: str | None, redo: str | None, file: str) -> tuple[list[Step], list[str]]:
    """Returns the steps to do, and the titles of those to do again: those asked for, and what depends on them."""
    for flag, asked in (("until", until), ("redo", redo)):
        if asked and not any(asked in (step.name, step.title) for step in steps):
            known = ", ".join(dict.fromkeys(step.name for step in steps))
            raise UserError(f"`{flag}={asked}`: {file} has no such step; it has {known}")
    if until:
        steps = steps[: 1 + max(place for place, step in enumerate(steps) if until in (step.name, step.title))]
    redone: list[str] = []
    for step in steps:
        if redo in (step.name, step.title) or {*step.needs} & {*redone}:
            redone.append(step.title)
    return steps, redone


def _state(step: Step) -> bool | None:
    """Returns whether a step is done; None if what is there is of something else."""
    with contextlib.suppress(UserError):
        return step.is_done()
    return None


def _check_kept(step: Step) -> None:
    """Raises UserError if a step is to be done again, and trainings that depend on it would be lost."""
    try:
        step.is_done()
    except UserError as error:
        if lost := [str(run) for run in step.trainings if list_checkpoints(run)]:
            step.check()
            raise UserError(
                f"{str(error).partition('; ')[0]}. Use another dir; or pass --redo={shlex.quote(step.title)} to make "
                f"it again, and to lose the training in {', '.join(lost)}"
            ) from error


def _remove(step: Step) -> None:
    step.check()
    for path in filter(Path.exists, step.stale()):
        cli.say(f"{step.title}: removing {path}")
        shutil.rmtree(path.resolve()) if path.is_dir() else path.unlink()


def _execute(step: Step, logs: Path) -> int:
    """Runs the command of a step, and shows the last line of what it prints. Returns its exit status."""
    log, title = logs / f"{re.sub('[^a-z0-9_]+', '-', step.title).strip('-')}.log", step.title
    cli.say(f"{title}: {step.line}")
    with open(log, "ab") as output:
        start = output.tell()
        process = subprocess.Popen(
            [*cli.program(step.command), *step.flags],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            preexec_fn=functools.partial(end_with_parent, signal.SIGKILL),  # else two commands might work on the same
            process_group=0,  # gets signals from here only
        )
    _watch(process, title, log, start)
    if process.returncode:
        advice = "the same command goes on"
        if 0 < process.returncode < 128:  # not stopped by a signal
            advice = "after that is mended, the same command goes on"
            if step.name == "train" and list_checkpoints(step.stale()[0]):
                advice += f"; --redo={shlex.quote(title)} trains again, and removes what is in {step.stale()[0]}"
        if line := _last_line(log, start):
            cli.warn(line)
        cli.warn(f"{title}: stopped; all it printed is in {log}; {advice}")
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _watch(process: subprocess.Popen, title: str, log: Path, start: int) -> None:
    """Waits for a command, shows the last line of its log, and passes signals on to it."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda number, _: process.send_signal(number)) for number in numbers]
    is_terminal, started, shown = sys.stdout.isatty(), time.monotonic(), time.monotonic()
    try:
        while process.poll() is None:
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                line = f"{title}, {format_duration(time.monotonic() - started)}: {_last_line(log, start)}"
                half = shutil.get_terminal_size().columns // 2 - 2
                if is_terminal:
                    line = line if len(line) <= 2 * half else f"{line[:half]} ... {line[4 - half :]}"
                    print(f"\r\x1b[K{line}", end="", flush=True)
                elif time.monotonic() >= shown + Display.LINE_SECONDS:
                    shown = time.monotonic()
                    cli.say(line)
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)
        if is_terminal:
            print("\r\x1b[K", end="", flush=True)


def _last_line(log: Path, start: int) -> str:
    with open(log, "rb") as file:
        file.seek(max(start, file.seek(0, 2) - 4000))
        lines = file.read().decode(errors="replace").replace("\r", "\n").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")
