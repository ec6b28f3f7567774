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
    steps, redone = _asked_steps([*steps_of(recipe)], arguments.until, arguments.redo, file.name)
    if arguments.dry_run:
        print(f"cd {shlex.quote(str(file.parent))}")
        for step in steps:
            is_done = False
            with contextlib.suppress(UserError):  # what is there is of something else
                is_done = step not in redone and step.is_done()
            print(f"# {step.title}{': already done' if is_done else ''}\n{step.line}")
        return 0
    if steps[-1].name == "report":  # not only after the training
        check_packages()
    for step in steps:
        how, started = "already done", time.monotonic()
        if step in redone:
            _remove(step)
        if not _is_done(step, recipe.dir):
            if status := _execute(step, recipe.dir / "logs", more):
                return status
            how = f"done in {format_duration(time.monotonic() - started)}"
        cli.say(f"{step.title}: {how}: {', '.join(map(str, step.outcome() if step.outcome else step.results))}")
    if not arguments.until and (served := [step for step in steps if "--format=ctranslate2" in step.flags]):
        cli.say_next("serve", f"--export_dir={served[0].results[0].absolute()}")
    return 0


def _asked_steps(steps: list[Step], until: str | None, redo: str | None, file: str) -> tuple[list[Step], list[Step]]:
    """Returns the steps to do, and those to do again."""
    names = [step.name for step in steps]
    for flag, asked in (("until", until), ("redo", redo)):
        if asked and asked not in names:
            raise UserError(f"`{flag}={asked}`: {file} has no such step; it has {', '.join(dict.fromkeys(names))}")
    if until:
        steps = steps[: len(names) - names[::-1].index(until)]
    redone = [step for step in steps if step.name == redo]
    if redone and redo not in ("evaluate", "export", "report"):
        redone = steps[steps.index(redone[0]) :]  # all later ones depend on it
    return steps, redone


def _is_done(step: Step, folder: Path) -> bool:
    """Returns whether a step is done. Data that was made with other settings or from other sources is removed.

    Raises UserError if a training depends on it, which would be lost.
    """
    try:
        return step.is_done()
    except UserError as error:
        if step.name == "data":  # the other commands make it again, or say what is wrong
            step.check()
            runs = [str(file.parent) for file in sorted(folder.rglob("run.json")) if list_checkpoints(file.parent)]
            if runs:
                raise UserError(
                    f"{str(error).partition('; ')[0]}. Use another `dir`; or pass `redo=data` to make it again, and to "
                    f"lose the training in {', '.join(runs)}"
                ) from error
            _remove(step)
        return False


def _remove(step: Step) -> None:
    step.check()
    for path in filter(Path.exists, step.results):
        cli.say(f"{step.title}: removing {path}")
        shutil.rmtree(path) if path.is_dir() else path.unlink()


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
            process_group=0,  # gets signals from here only
        )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: process.send_signal(number))
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
    finally:
        if is_terminal:
            print("\r\x1b[K", end="", flush=True)
    if process.returncode:
        advice = "the same command goes on"
        if 0 < process.returncode < 128:  # not stopped by a signal
            advice = "after that is mended, the same command goes on"
            if step.name == "train" and list_checkpoints(step.results[0]):
                advice += f"; --redo=train trains again, and removes what is in {step.results[0]}"
        cli.warn(_last_line(log, start))
        cli.warn(f"{title}: stopped; all it printed is in {log}; {advice}")
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _last_line(log: Path, start: int) -> str:
    with open(log, "rb") as file:
        file.seek(max(start, file.seek(0, 2) - 4000))
        lines = file.read().decode(errors="replace").replace("\r", "\n").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")
