"""t2t-lite-run: does every step that a file describes and that is not done yet, from the data to the exports."""

import argparse
import contextlib
import ctypes
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
from t2t_lite.options import option
from t2t_lite.report.writing import check_packages
from t2t_lite.runs.checkpoint_files import list_checkpoints

_EXAMPLES = ("text", "multi30k", "wmt_ende", "parsing", "grammar")  # files in examples/


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("run", _run, argv)


class Flags(cli.Flags):
    config: PathLike | None = option(None, "the file that describes what to make (TOML)", metavar="FILE")
    example: str | None = option(
        None, "print an example of such a file and exit", bare="text", choices=_EXAMPLES, parse=str
    )
    until: str | None = option(None, "stop after this step", choices=STEPS)
    redo: str | None = option(None, "remove what this step made, and do it and what depends on it again", choices=STEPS)
    dry_run: bool = option(False, "only print the commands of the steps")


def make_parser() -> cli.CommandParser:
    about = "Do every step that a file describes: data, training, scores, exports, a report. Run it again to go on."
    return cli.CommandParser("run", about, Flags)


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
    steps = list(steps_of(recipe))
    for flag, asked in (("until", arguments.until), ("redo", arguments.redo)):
        if asked and asked not in (names := [step.name for step in steps]):
            raise UserError(f"`{flag}={asked}`: {file.name} has no such step; it has {', '.join(dict.fromkeys(names))}")
    last = max((place for place, step in enumerate(steps) if step.name == arguments.until), default=len(steps))
    steps = steps[: last + 1]
    if arguments.dry_run:
        print("\n".join([f"cd {shlex.quote(str(file.parent))}", *(step.line for step in steps)]))
        return 0
    if steps[-1].name == "report":  # not only after the training
        check_packages()
    redone = [step for step in steps if step.name == arguments.redo]
    if redone and arguments.redo not in ("evaluate", "export", "report"):
        redone = steps[steps.index(redone[0]) :]  # all later ones depend on it
    for path in (path for step in redone for path in step.results):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for step in steps:
        how, started = "already done", time.monotonic()
        if not _is_done(step, recipe.dir):
            if status := _execute(step, recipe.dir / "logs", more):
                return status
            how = f"done in {format_duration(time.monotonic() - started)}"
        cli.say(f"{step.title}: {how}: {', '.join(map(str, step.outcome() or step.results))}")
    return 0


def _is_done(step: Step, folder: Path) -> bool:
    """Returns whether a step is done. What was made with other settings or from other sources is removed.

    Raises UserError if a training depends on it, which would be lost.
    """
    try:
        return step.is_done()
    except UserError as error:
        if step.name != "data":  # the command says what is wrong, or makes it again
            return False
        if runs := [str(file.parent) for file in sorted(folder.rglob("run.json")) if list_checkpoints(file.parent)]:
            raise UserError(
                f"{error}. To make it again, and to lose the training in {', '.join(runs)}, pass `redo=data`"
            ) from error
        for path in step.results:
            shutil.rmtree(path)
        return False


def _execute(step: Step, logs: Path, more: Sequence[str]) -> int:
    """Runs the command of a step, and shows the last line of what it prints. Returns its exit status."""
    logs.mkdir(parents=True, exist_ok=True)
    log, title = logs / f"{re.sub('[^a-z0-9_]+', '-', step.title).strip('-')}.log", step.title
    cli.say(f"{title}: {step.line}")
    with open(log, "ab") as output:
        start = output.tell()
        process = subprocess.Popen(
            [*cli.program(step.command), *step.flags, *more],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
    before = signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    is_terminal, started = sys.stdout.isatty(), time.monotonic()
    shown = started
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
            except KeyboardInterrupt:  # the command has got it, too
                continue
    finally:
        signal.signal(signal.SIGTERM, before)
        if is_terminal:
            print("\r\x1b[K", end="", flush=True)
    if process.returncode:
        cli.warn(_last_line(log, start))
        cli.warn(f"{title}: stopped; all it printed is in {log}. The same command goes on")
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _last_line(log: Path, start: int) -> str:
    with open(log, "rb") as file:
        file.seek(max(start, file.seek(0, 2) - 4000))
        lines = file.read().decode(errors="replace").replace("\r", "\n").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")
