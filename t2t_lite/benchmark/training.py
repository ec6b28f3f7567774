"""Measures the cost of training: the time, memory and device utilisation of its steps."""

import contextlib
import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from t2t_lite.benchmark.machine import Machine, describe_machine
from t2t_lite.config import HParams
from t2t_lite.cost.flops import training_step_flops
from t2t_lite.data.manifest import Manifest, SplitEntry, VocabularyEntry
from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.training.checks import check_lengths
from t2t_lite.training.options import TrainOptions

if TYPE_CHECKING:  # a measuring process configures TensorFlow before importing it
    import tensorflow as tf

    from t2t_lite.training.step.micro_batching import DistributedBatch
    from t2t_lite.training.step.report import StepReport

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
        check_lengths(self.manifest, hparams)

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
        from t2t_lite.data.windows import window_size

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
    # Operations per non-padding target token, including its share of the source, see `training.cost`.
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


def measure_training(
    hparams: HParams,
    data: TrainingData,
    strategy: "tf.distribute.Strategy",
    options: TrainOptions,
    num_steps: int = 10,
    warmup_steps: int = 3,
) -> TrainingCost:
    """Trains a new model for a few steps and measures the last `num_steps`. Writes nothing.

    Peak memory counts from the start of the process, so use a separate process for accurate values. Only the options
    max_tokens_per_replica, free_bytes, xla_compile, peak_tflops and random_seed have an effect.
    """
    import tensorflow as tf

    from t2t_lite.training.monitoring.peak_flops import peak_flops
    from t2t_lite.training.monitoring.throughput import memory_in_use
    from t2t_lite.training.setup import bound_micro_batches, build_model
    from t2t_lite.training.step.micro_batching import distribute_batches
    from t2t_lite.training.step.train_step import TrainStep

    data.check(hparams)
    inputs_size, targets_size = data.vocab_sizes()
    micro_batches = bound_micro_batches(hparams, data.manifest, inputs_size, targets_size, strategy, options)
    peak = peak_flops(strategy, hparams.precision, options.peak_tflops)
    model, optimizer = build_model(hparams, targets_size, strategy, options.random_seed, inputs_size)
    compiles = bool(options.xla_compile)
    with data.reading():
        batches = distribute_batches(strategy, data.batches(hparams, options.random_seed), micro_batches)
        about = (batches.element_spec, options.random_seed, compiles, micro_batches.num_parallel)
        train_step = TrainStep(strategy, model, optimizer, *about)
        first = itertools.islice(batches, warmup_steps + num_steps)
        start = time.perf_counter()
        try:
            try_every_graph(train_step, first, compiles or micro_batches.static_tokens > 0)
            compile_seconds = time.perf_counter() - start
            steps, skipped = _time_steps(train_step, iter(batches), num_steps, warmup_steps)
        except tf.errors.ResourceExhaustedError as error:
            raise UserError(
                f"out of memory in {hparams.precision}; set `max_tokens_per_replica` below {micro_batches.max_tokens}, "
                f"or reduce batch_tokens"
            ) from error
        memory = memory_in_use()  # before other measurements increase it
        delivered = None
        if data.problem is not None:
            delivered = _pipeline_speed(batches, max(data.round_of_batches(hparams.batch_tokens), num_steps))
    flops = sum(training_step_flops(model, *data.mean_lengths()).values())
    return TrainingCost(
        precision=hparams.precision,
        batch_by=hparams.batch_by,
        xla_compile=compiles,
        replicas=strategy.num_replicas_in_sync,
        parameters=model.count_params(),
        compile_seconds=compile_seconds,
        steps=steps,
        skipped_steps=skipped,
        input_tokens_per_second=delivered,
        counted_flops_per_token=flops / hparams.batch_tokens,
        # Take the better of two measurements, because other processes can only slow a measurement down.
        peak_flops=max(peak, peak_flops(strategy, hparams.precision, options.peak_tflops)),
        memory_bytes=memory,
        machine=describe_machine(strategy),
    )


def _time_steps(
    train_step: Callable[["DistributedBatch"], "StepReport"],
    batches: Iterator["DistributedBatch"],
    num_steps: int,
    warmup_steps: int,
) -> tuple[list[TimedStep], int]:
    """Returns (the timed steps, the number of them that were skipped)."""
    for batch in itertools.islice(batches, warmup_steps):
        train_step(batch)
    steps, skipped = [], 0
    for _ in range(num_steps):
        start = time.perf_counter()
        batch = next(batches)
        waited = time.perf_counter() - start
        report = train_step(batch)
        steps.append(TimedStep(time.perf_counter() - start, waited, float(report.sums.tokens), report.positions))
        skipped += not report.finite
    return steps, skipped


def try_every_graph(
    train_step: Callable[["DistributedBatch"], object], batches: Iterable["DistributedBatch"], is_compiled: bool
) -> None:
    """Runs a step with each graph that the batches need, so that timed steps include no tracing or compilation.

    If `is_compiled`, each batch shape has its own graph. Otherwise, batches with a single micro-batch share one graph,
    and those with several share another. The batches come from `distribute_batches`.
    """
    from t2t_lite.training.step.micro_batching import first_replica

    seen = set()
    for batch in batches:
        shapes = [tuple(first_replica(batch[side]).shape) for side in ("inputs", "targets")]
        graph = tuple(shapes) if is_compiled else shapes[0][0] == 1
        if graph not in seen:
            train_step(batch)
        seen.add(graph)


def _pipeline_speed(batches: Iterable["DistributedBatch"], number: int) -> float:
    """Returns the speed of reading `number` batches without training, in non-padding target tokens per second."""
    from t2t_lite.training.step.micro_batching import first_replica

    iterator = iter(batches)
    next(iterator)  # excludes the setup; the batches below still include reading and sorting a window
    # Read a fixed number of batches, not for a fixed time, because all workers must request the same batches.
    start = time.perf_counter()
    tokens = sum(float(first_replica(batch["tokens"])) for batch in itertools.islice(iterator, number))
    return tokens / (time.perf_counter() - start)
