"""What a running training shows: a bar on a terminal, plain lines elsewhere, TensorBoard scalars always."""

import sys
import time
from pathlib import Path

import rich.console
import rich.progress
import tensorflow as tf


class Progress:
    """Reports steps. Use as a context manager.

    Args:
      directory: the run directory; event files go to its `train` and `eval`.
      first_step: steps already made.
      last_step: the step at which training ends.
      every: steps between two reports.
    """

    def __init__(self, directory: Path, first_step: int, last_step: int, every: int):
        self._every = every
        self._last_step = last_step
        self._train_writer = tf.summary.create_file_writer(str(directory / "train"))
        self._eval_writer = tf.summary.create_file_writer(str(directory / "eval"))
        self._console = rich.console.Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self._bar = None
        if self._console.is_terminal:
            self._bar = rich.progress.Progress(
                "step {task.completed}/{task.total}",
                rich.progress.BarColumn(),
                "{task.fields[figures]}",
                rich.progress.TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task("", total=last_step, completed=first_step, figures="")
        self._restart_clock(first_step)

    def __enter__(self):
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *exception):
        if self._bar:
            self._bar.stop()
        self._train_writer.close()
        self._eval_writer.close()

    def _restart_clock(self, step: int) -> None:
        self._since, self._since_step, self._tokens, self._loss = time.monotonic(), step, 0.0, 0.0

    def after_step(self, step: int, smoothed: float, tokens: float, learning_rate: float) -> None:
        """Counts one step: the sum of its smoothed losses over `tokens` real target pieces."""
        self._loss += smoothed
        self._tokens += tokens
        if self._bar:
            self._bar.update(self._task, completed=step)
        if step % self._every and step != self._last_step:
            return
        seconds = time.monotonic() - self._since
        loss, speed = self._loss / self._tokens, self._tokens / seconds
        left = seconds / (step - self._since_step) * (self._last_step - step)
        figures = f"loss {loss:.3f}  learning rate {learning_rate:.2e}  {speed:,.0f} target tokens/s"
        if self._bar:
            self._bar.update(self._task, figures=figures)
        else:
            self.say(f"step {step}/{self._last_step}  {figures}  {_duration(left)} left")
        scalars = {"loss": loss, "learning_rate": learning_rate, "target_tokens_per_second": speed}
        self._write(self._train_writer, step, scalars)
        self._restart_clock(step)

    def after_evaluation(self, step: int, evaluation) -> None:
        """Reports an `Evaluation` of the dev split."""
        self.say(f"step {step}: dev loss {evaluation.loss:.3f}, dev perplexity {evaluation.perplexity:.2f} per token")
        self._write(self._eval_writer, step, {"loss": evaluation.loss, "perplexity": evaluation.perplexity})
        self._restart_clock(step)

    def say(self, line: str) -> None:
        """Prints a line, above the bar if there is one."""
        self._console.print(line, markup=False)

    @staticmethod
    def _write(writer, step: int, scalars: dict[str, float]) -> None:
        with writer.as_default():
            for name, value in scalars.items():
                tf.summary.scalar(name, value, step=step)
        writer.flush()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
