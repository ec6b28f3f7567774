"""Runs measurements in separate processes, so that earlier measurements leave no memory or threads behind.

And the data of a training to measure, which such a process gets; it needs no TensorFlow.
"""

import concurrent.futures
import dataclasses
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from t2t_lite.config import HParams
from t2t_lite.data.manifest import Manifest, SplitEntry, VocabularyEntry
from t2t_lite.data.problem import SIDES, Problem
from t2t_lite.errors import UserError
from t2t_lite.system.tensorflow import prepare_process

T = TypeVar("T")


def in_a_process(function: Callable[..., T], *arguments: object) -> T:
    """Calls an importable function in a new process and returns its result.

    Arguments and result are pickled. Raises the function's errors, and a UserError if the process is killed.
    """
    # Do not fork, because TensorFlow's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context, initializer=prepare_process) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise UserError(
                "the measuring process was killed, probably because memory ran out; measure a smaller model or batch"
            ) from error


class WholeCommand(NamedTuple):
    """The measurements of a whole command, run the way a user runs it."""

    seconds: float
    peak_bytes: int
    outputs: list[str]  # the lines of its standard output


def whole_command(command: Sequence[str], cache: Path) -> WholeCommand:
    """Measures a command that caches compiled code in the folder `cache`. Raises a UserError if it fails."""
    # Start it from a small process, because Linux counts the parent's memory in the peak of the command.
    status, error, measured = in_a_process(_run, list(command), str(cache))
    if status:
        raise UserError(error or f"exit status {status}")
    return measured


def _run(command: list[str], cache: str) -> tuple[int, str, WholeCommand]:
    environment = os.environ | {"XDG_CACHE_HOME": cache}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output, tempfile.TemporaryFile("w+") as messages:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=messages, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        messages.seek(0)
        lines = output.read().split("\n")[:-1]
        last = (messages.read().splitlines() or [""])[-1]
        return process.returncode, last, WholeCommand(seconds, usage.ru_maxrss * 1024, lines)


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """The data on which training is measured: those of a problem, or random ids."""

    manifest: Manifest  # has the vocabulary sizes and the sentence lengths
    # problem, data_dir: the problem and its data folder; None: random ids.
    problem: Problem | None = None
    data_dir: Path | None = None

    def check(self, hparams: HParams) -> None:
        if self.problem is not None:
            self.problem.check_hparams(hparams)
        self.manifest.check_lengths(hparams)

    def vocab_sizes(self) -> tuple[int, int]:
        of_inputs, of_targets = self.manifest.vocabularies
        return self._in_direction((of_inputs["size"], of_targets["size"]))

    def mean_lengths(self) -> tuple[float, float]:
        of_inputs, of_targets = (self.manifest.mean_length("train", side) for side in SIDES)
        return self._in_direction((of_inputs, of_targets))

    def _in_direction(self, pair: tuple[T, T]) -> tuple[T, T]:
        return pair if self.problem is None else self.problem.in_direction(pair)


def random_data(vocab_size: int, source_length: int, target_length: int) -> TrainingData:
    """Returns data with random ids: sentences of the given lengths without padding. `vocab_size` must be at least 2."""
    lengths = {"inputs": {str(source_length): 1}, "targets": {str(target_length): 1}}
    split = SplitEntry(examples=1, plan="", shards={}, dropped={}, lengths=lengths)
    vocabulary = VocabularyEntry(file="", sha256="", size=vocab_size)
    return TrainingData(Manifest("random ids", vocabulary, {"train": split, "dev": split}, {}))
