"""Writes the figures of a training to TensorBoard event files, and to log.jsonl with one line per start and report."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorflow as tf


class EventLog:
    """Writes reports.

    Args:
      directory: the run directory; event files go to its subdirectories `train` and `eval`.
    """

    def __init__(self, directory: Path) -> None:
        self._writers = {part: tf.summary.create_file_writer(str(directory / part)) for part in ("train", "eval")}
        path = directory / "log.jsonl"
        is_torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")  # a killed process may leave half a line
        self._log = open(path, "a", encoding="utf-8")  # noqa: SIM115
        if is_torn:
            self._log.write("\n")

    def start(self, step: int, about: Mapping[str, object]) -> None:
        """Writes the line of a start to log.jsonl.

        Args:
          step: the number of steps already made.
          about: see `start_record`.
        """
        self._write({"part": "start", "step": step, **about})

    def record(self, part: str, step: int, figures: dict[str, float], samples: Sequence = ()) -> None:
        """Writes one report.

        Args:
          part: "train" or "eval".
          step: the step that the report is about.
          figures: numbers by name.
          samples: the `Sample`s of an evaluation.
        """
        with self._writers[part].as_default():
            for name, value in figures.items():
                tf.summary.scalar(name, value, step=step)
            for number, sample in enumerate(samples, start=1):
                # Indented by four, so that Markdown shows the text verbatim.
                text = "\n".join(f"    {name:<9}  {value}" for name, value in sample._asdict().items())
                tf.summary.text(f"sample {number}", text, step=step)
        self._writers[part].flush()
        # JSON has no NaN; null stands for a missing figure.
        values: dict[str, object] = {name: value if value == value else None for name, value in figures.items()}
        if samples:
            values["samples"] = [sample._asdict() for sample in samples]
        self._write({"part": part, "step": step} | values)

    def _write(self, line: Mapping[str, object]) -> None:
        self._log.write(json.dumps({"time": round(time.time(), 3), **line}) + "\n")
        self._log.flush()

    def close(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()
        self._log.close()
