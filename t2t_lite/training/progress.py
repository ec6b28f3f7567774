"""What a running training shows: a bar on a terminal, plain lines elsewhere, event files and a log always."""

import json
import sys
import time
from pathlib import Path

import rich.console
import rich.progress
import tensorflow as tf


class Progress:
    """Reports steps. Use as a context manager.

    Args:
      directory: the run directory; event files go to its `train` and `eval`, one JSON object a report to `log.jsonl`.
      first_step: steps already made.
      last_step: the step at which training ends.
      silent: say and write nothing, as workers do that are not the chief.
    """

    def __init__(self, directory: Path, first_step: int, last_step: int, silent: bool = False):
        self._last_step = last_step
        self._writers = {}
        self._log = None
        self._bar = None
        self._console = rich.console.Console(file=sys.stdout, highlight=False, soft_wrap=True, quiet=silent)
        if silent:
            return
        self._writers = {part: tf.summary.create_file_writer(str(directory / part)) for part in ("train", "eval")}
        self._log = open(directory / "log.jsonl", "a", encoding="utf-8")  # noqa: SIM115
        if self._console.is_terminal:
            self._bar = rich.progress.Progress(
                "step {task.completed}/{task.total}",
                rich.progress.BarColumn(),
                "{task.fields[figures]}",
                rich.progress.TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task("", total=last_step, completed=first_step, figures="")

    def __enter__(self):
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *exception):
        if self._bar:
            self._bar.stop()
        for writer in self._writers.values():
            writer.close()
        if self._log:
            self._log.close()

    def after_step(self, step: int) -> None:
        """Moves the bar."""
        if self._bar:
            self._bar.update(self._task, completed=step)

    def report(self, step: int, figures: dict[str, float]) -> None:
        """Shows and records the figures of a `Meter`, with the learning rate."""
        left = (self._last_step - step) / figures["steps_per_second"]
        utilisation = f"utilisation {figures['utilisation']:.0%}  " if "utilisation" in figures else ""
        line = (
            f"loss {_number(figures['loss'], 3)}  gradient norm {_number(figures['gradient_norm'], 2)}  "
            f"learning rate {figures['learning_rate']:.2e}  {figures['target_tokens_per_second']:,.0f} target tokens/s "
            f"({figures['padded_target_tokens_per_second']:,.0f} padded)  "
            f"{utilisation}input wait {figures['input_wait_share']:.1%}  "
            f"{figures['memory_bytes'] / 2**30:.1f} GiB"
        )
        if figures["skipped_steps"]:
            line += f"  {figures['skipped_steps']:.0f} steps skipped"
        if self._bar:
            self._bar.update(self._task, figures=line)
        else:
            self.say(f"step {step}/{self._last_step}  {line}  {_duration(left)} left")
        self._record("train", step, figures)

    def after_evaluation(self, step: int, figures: dict[str, float]) -> None:
        """Shows and records the figures of an `Evaluator`."""
        names = {"bleu": "BLEU", "f1": "F1"}
        more = "".join(f", dev {told} {figures[name]:.2f}" for name, told in names.items() if name in figures)
        loss, perplexity = _number(figures["loss"], 3), _number(figures["perplexity"], 2)
        self.say(f"step {step}: dev loss {loss}, dev perplexity {perplexity} per token{more}")
        self._record("eval", step, figures)

    def say(self, line: str) -> None:
        """Prints a line, above the bar if there is one."""
        self._console.print(line, markup=False)

    def _record(self, part: str, step: int, figures: dict[str, float]) -> None:
        if part not in self._writers:
            return
        with self._writers[part].as_default():
            for name, value in figures.items():
                tf.summary.scalar(name, value, step=step)
        self._writers[part].flush()
        # JSON has no NaN; a figure that there is none of is null.
        values = {name: value if value == value else None for name, value in figures.items()}
        self._log.write(json.dumps({"time": round(time.time(), 3), "part": part, "step": step} | values) + "\n")
        self._log.flush()


def _number(value: float, digits: int) -> str:
    """Returns a figure for people; that of a training that has diverged is as short as others."""
    return f"{value:.{digits}f}" if abs(value) < 1e6 or value != value else f"{value:.3g}"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
