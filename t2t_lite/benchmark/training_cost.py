"""The data on which training is measured, and the figures of a measurement."""

import contextlib
import dataclasses
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from t2t_lite.config import HParams
from t2t_lite.data.manifest import Manifest, SplitEntry, VocabularyEntry
from t2t_lite.data.problem import Problem

if TYPE_CHECKING:  # a measuring process configures TensorFlow before importing it
    import tensorflow as tf

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class TrainingData:
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
        return self._in_direction(
            (self.manifest.mean_length("train", "inputs"), self.manifest.mean_length("train", "targets"))
        )

    def batches(self, hparams: HParams, seed: int) -> "tf.data.Dataset":
        """Returns an endless `tf.data.Dataset` of global batches {"inputs", "targets"}, int32 [rows, length]."""
        import tensorflow as tf

        from t2t_lite.data.pipeline import epochs

        if self.problem is not None and self.data_dir is not None:
            return epochs(
                self.problem,
                self.data_dir,
                batch_tokens=hparams.batch_tokens,
                batch_by=hparams.batch_by,
                max_length=hparams.max_length,
                bpe_dropout=hparams.bpe_dropout,
                pair_concatenation=hparams.pair_concatenation,
                seed=seed,
            )
        lengths = {side: int(length) for side, length in zip(("inputs", "targets"), self.mean_lengths())}
        rows = max(round(hparams.batch_tokens / lengths["targets"]), 1)
        generator = np.random.default_rng(seed)
        batch = {
            side: generator.integers(1, size, (rows, lengths[side]), np.int32)
            for side, size in zip(lengths, self.vocab_sizes())
        }
        # Repeat one batch: this costs nothing, and the ids in a batch do not affect the time of a step.
        return tf.data.Dataset.from_tensors(batch).repeat()

    def round_of_batches(self, batch_tokens: int) -> int:
        from t2t_lite.data.pipeline import window_size

        pairs = window_size(self.manifest.splits["train"]["examples"])
        return math.ceil(pairs * self.mean_lengths()[1] / batch_tokens)

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context for reading batches, in which damaged files raise a UserError."""
        from t2t_lite.data.pipeline import reading_shards

        if self.problem is None or self.data_dir is None:
            return contextlib.nullcontext()
        return reading_shards(self.problem.data_name, self.data_dir)

    def _in_direction(self, pair: tuple[_T, _T]) -> tuple[_T, _T]:
        return pair if self.problem is None else self.problem.in_direction(pair)


def random_data(vocab_size: int, source_length: int, target_length: int) -> TrainingData:
    """Returns data with random ids: sentences of the given lengths without padding. `vocab_size` must be at least 2."""
    lengths = {"inputs": {str(source_length): 1}, "targets": {str(target_length): 1}}
    split = SplitEntry(examples=1, plan="", shards={}, dropped={}, lengths=lengths)
    vocabulary = VocabularyEntry(file="", sha256="", size=vocab_size)
    return TrainingData(Manifest("random ids", vocabulary, {"train": split, "dev": split}, {}))


@dataclasses.dataclass(frozen=True)
class Machine:
    devices: list[str]  # the devices of the strategy, each with its kind
    threads: int  # number of CPU threads that TensorFlow uses
    matmul_gflops: float  # speed of a 2048x2048 matrix product in float32 on the first device, in GFLOP/s
    # tensorflow, keras, python: versions.
    tensorflow: str
    keras: str
    python: str


class TimedStep(NamedTuple):
    """One training step: total seconds, seconds spent waiting for the batch, target tokens without and with padding."""

    seconds: float
    waited: float
    target_tokens: float
    padded_target_tokens: float


@dataclasses.dataclass(frozen=True)
class TrainingCost:
    precision: str  # a value of HParams.precision
    batch_by: str  # a value of HParams.batch_by
    xla_compile: bool  # whether the steps were compiled
    replicas: int  # number of devices that share a batch
    parameters: int  # number of parameters
    compile_seconds: float  # time of the first step of each graph: tracing, compilation and the step itself
    steps: list[TimedStep]  # the timed steps
    skipped_steps: int  # number of timed steps whose gradients were not finite
    # Non-padding target tokens per second of the input pipeline alone; None for random ids, which need no pipeline.
    input_tokens_per_second: float | None
    # Operations per non-padding target token, including its share of the source, see `cost.flops`.
    counted_flops_per_token: float
    peak_flops: float  # peak operations per second of all devices together
    memory_bytes: int  # peak memory up to the last step: the maximum over all GPUs; without GPUs, of the process
    machine: Machine  # the machine on which this was measured

    def figures(self) -> dict[str, float | str | None]:
        """Returns all measurements by name. Names include units.

        Times and rates are computed for every step; a name with `median` or `best` has the median or the best of them.
        Utilisations are based on the median rate.
        """
        rates = [step.target_tokens / step.seconds for step in self.steps]
        padded = [step.padded_target_tokens / step.seconds for step in self.steps]
        seconds = [step.seconds for step in self.steps]
        median = statistics.median(rates)
        delivered = self.input_tokens_per_second
        return {
            "precision": self.precision,
            "batch_by": self.batch_by,
            "xla_compile": self.xla_compile,
            "devices": self.replicas,
            "parameters": self.parameters,
            "steps": len(self.steps),
            "skipped_steps": self.skipped_steps,
            "compile_seconds": self.compile_seconds,
            "seconds": sum(seconds),
            "target_tokens": sum(step.target_tokens for step in self.steps),
            "padded_target_tokens": sum(step.padded_target_tokens for step in self.steps),
            "step_seconds_median": statistics.median(seconds),
            "step_seconds_best": min(seconds),
            "target_tokens_per_second_median": median,
            "target_tokens_per_second_best": max(rates),
            "target_tokens_per_second_per_device_median": median / self.replicas,
            "padded_target_tokens_per_second_median": statistics.median(padded),
            "padded_target_tokens_per_second_best": max(padded),
            "padded_target_tokens_per_second_per_device_median": statistics.median(padded) / self.replicas,
            "input_wait_share": sum(step.waited for step in self.steps) / sum(seconds),
            "input_tokens_per_second": delivered,
            "input_times_training": None if delivered is None else delivered / median,
            "utilisation_by_6_parameters": 6 * self.parameters * median / self.peak_flops,
            # A shared machine may be faster during training than during the measurement of its peak.
            "utilisation_by_counted_flops": min(1.0, self.counted_flops_per_token * median / self.peak_flops),
            "counted_flops_per_target_token": self.counted_flops_per_token,
            "peak_flops_per_second": self.peak_flops,
            "peak_memory_bytes": self.memory_bytes,
        }
