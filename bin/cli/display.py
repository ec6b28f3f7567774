"""Shows the progress of the library in commands: lines, tables, and a progress bar on a terminal."""

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import rich.console
import rich.progress

from t2t_lite.bin.cli.flags import as_flags
from t2t_lite.display import Display

if TYPE_CHECKING:
    from t2t_lite.data.generation.text_checks import TextChecks


class CommandDisplay(Display):
    """Prints lines. On a terminal, training shows a progress bar with the latest metrics."""

    def __init__(self) -> None:
        self._console: rich.console.Console | None = None
        self._bar: rich.progress.Progress | None = None
        self._figures = ""

    def say(self, line: str) -> None:
        self.text(as_flags(line))

    def text(self, text: str) -> None:
        if self._console:
            self._console.print(text, markup=False)
        else:
            print(text, flush=True)

    def text_checks(self, checks: "TextChecks") -> None:
        from t2t_lite.bin.datagen.text_report import print_report

        print_report(checks)

    def start_training(self, first_step: int, last_step: int) -> None:
        self._console = rich.console.Console(file=sys.stdout, highlight=False, soft_wrap=True)
        if self._console.is_terminal:
            self._bar = rich.progress.Progress(
                "step {task.completed}/{task.total}",
                rich.progress.BarColumn(),
                "{task.fields[figures]}",
                rich.progress.TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task("", total=last_step, completed=first_step, figures="")
            self._bar.start()

    def after_step(self, step: int) -> None:
        if self._bar:
            self._bar.update(self._task, completed=step)

    def report(self, step: int, last_step: int, figures: str, left: str) -> None:
        if self._bar:
            self._figures = figures
            self._bar.update(self._task, figures=figures)
        else:
            super().report(step, last_step, figures, left)

    def evaluating(self, line: str) -> None:
        """Shows the progress of an evaluation beside the bar, or prints it every 30 seconds."""
        if self._bar:
            self._bar.update(self._task, figures=line)
        else:
            super().evaluating(line)

    def end_evaluation(self) -> None:
        if self._bar:
            self._bar.update(self._task, figures=self._figures)

    def stopping(self) -> None:
        line = b"stopping after this step and its checkpoint, or now if evaluating; a second signal stops immediately\n"
        with contextlib.suppress(OSError):  # os.write, because the signal may have interrupted a print
            os.write(2, line)

    def end_training(self) -> None:
        if self._bar:
            self._bar.stop()
        self._bar = self._console = None
