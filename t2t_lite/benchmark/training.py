"""What training costs here: time, memory and use of the devices, measured step by step."""

import contextlib
import dataclasses
import itertools
import math
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from t2t_lite.benchmark.machine import Machine, describe_machine
from t2t_lite.config import HParams
from t2t_lite.data.manifest import Manifest, check_data
from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.training.checks import check_lengths
from t2t_lite.training.cost import training_step_flops
from t2t_lite.training.options import TrainOptions


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """What is trained on: the data of a problem, or random ids.

    Args:
      manifest: sizes of vocabularies and lengths of sentences.
      problem, data_dir: whose data and where it is; None: random ids.
    """

    manifest: Manifest
    problem: Problem | None = None
    data_dir: Path | None = None

    def check(self, hparams: HParams) -> None:
        """Raises UserError if no model with these settings can be trained on it."""
        if self.problem is not None:
            self.problem.check_hparams(hparams)
        check_lengths(self.manifest, hparams)

    def vocab_sizes(self) -> tuple[int, int]:
        """Returns the tokens of the vocabularies of inputs and targets."""
        return self._in_direction(tuple(vocabulary["size"] for vocabulary in self.manifest.vocabularies))

    def mean_lengths(self) -> tuple[float, float]:
        """Returns the average tokens of inputs and targets."""
        return self._in_direction(tuple(self.manifest.mean_length("train", side) for side in ("inputs", "targets")))

    def batches(self, hparams: HParams, seed: int):
        """Returns a `tf.data.Dataset` of global batches {"inputs", "targets"}, int32 [rows, length], without end."""
        import tensorflow as tf

        from t2t_lite.data.pipeline import epochs

        if self.problem is not None:
            limits = {"batch_tokens": hparams.batch_tokens, "max_length": hparams.max_length}
            return epochs(self.problem, self.data_dir, **limits, seed=seed)
        lengths = {side: int(length) for side, length in zip(("inputs", "targets"), self.mean_lengths())}
        rows = max(round(hparams.batch_tokens / lengths["targets"]), 1)
        generator = np.random.default_rng(seed)
        batch = {
            side: generator.integers(1, size, (rows, lengths[side]), np.int32)
            for side, size in zip(lengths, self.vocab_sizes())
        }
        # The same one each time: it costs nothing to make, and what it holds makes no difference.
        return tf.data.Dataset.from_tensors(batch).repeat()

    def round_of_batches(self, batch_tokens: int) -> int:
        """Returns how many batches an epoch makes, or a window of the pipeline if an epoch has several."""
        from t2t_lite.data.pipeline import window_of

        pairs = window_of(self.manifest.splits["train"]["examples"])
        return math.ceil(pairs * self.mean_lengths()[1] / batch_tokens)

    def reading(self) -> contextlib.AbstractContextManager:
        """Returns a context in which batches are read: a damaged file is a UserError."""
        from t2t_lite.data.pipeline import reading_shards

        if self.problem is None:
            return contextlib.nullcontext()
        return reading_shards(self.problem.data_name, self.data_dir)

    def _in_direction(self, pair: tuple) -> tuple:
        return pair if self.problem is None else self.problem.in_direction(pair)


def data_of_problem(problem: Problem, data_dir: Path) -> TrainingData:
    """Returns the data of a problem.

    Raises:
      UserError: if it is not there, or not whole.
    """
    return TrainingData(check_data(data_dir, problem), problem, data_dir)


def random_data(vocab_size: int, source_length: int, target_length: int) -> TrainingData:
    """Returns data of random ids without any padding.

    Args:
      vocab_size: tokens of the vocabulary that both sides share, at least 2.
      source_length, target_length: tokens of each sentence.
    """
    lengths = {"inputs": {str(source_length): 1}, "targets": {str(target_length): 1}}
    split = {"examples": 1, "shards": {}, "lengths": lengths}
    return TrainingData(Manifest("random ids", {"size": vocab_size}, {"train": split, "dev": split}, {}))


class TimedStep(NamedTuple):
    """One training step: seconds in all and of them waiting for the batch; target tokens, and positions for them."""

    seconds: float
    waited: float
    target_tokens: float
    padded_target_tokens: float


@dataclasses.dataclass(frozen=True)
class TrainingCost:
    """What a training has cost.

    Args:
      precision: that of the settings.
      replicas: devices that share a batch.
      parameters: trained numbers.
      steps: those that were timed.
      skipped_steps: how many of them had gradients that are not finite.
      input_tokens_per_second: real target tokens that the input pipeline gives while nobody trains; None if there is
        none, as with random ids.
      counted_flops_per_token: operations for a real target token and what belongs to it, as `training.cost` counts.
      peak_flops: operations a second of all devices together.
      memory_bytes: the most in use up to the last step: of the GPU that has used most, or of the process.
      machine: what it was measured on.
    """

    precision: str
    replicas: int
    parameters: int
    steps: list[TimedStep]
    skipped_steps: int
    input_tokens_per_second: float | None
    counted_flops_per_token: float
    peak_flops: float
    memory_bytes: int
    machine: Machine

    def figures(self) -> dict[str, float | str | None]:
        """Returns all figures by name, with their units in the names.

        Every step has rates of its own, its tokens over its seconds, and `median` and `best` are the median and the
        best of those. Utilisations are of the median rate.
        """
        rates = [step.target_tokens / step.seconds for step in self.steps]
        padded = [step.padded_target_tokens / step.seconds for step in self.steps]
        seconds = [step.seconds for step in self.steps]
        median = statistics.median(rates)
        delivered = self.input_tokens_per_second
        return {
            "precision": self.precision,
            "devices": self.replicas,
            "parameters": self.parameters,
            "steps": len(self.steps),
            "skipped_steps": self.skipped_steps,
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
            # A machine that others use may have been faster while it trained than when its peak was measured.
            "utilisation_by_counted_flops": min(1.0, self.counted_flops_per_token * median / self.peak_flops),
            "counted_flops_per_target_token": self.counted_flops_per_token,
            "peak_flops_per_second": self.peak_flops,
            "peak_memory_bytes": self.memory_bytes,
        }


def measure_training(
    hparams: HParams, data: TrainingData, strategy, options: TrainOptions, num_steps: int = 10, warmup_steps: int = 3
) -> TrainingCost:
    """Trains a few steps of a new model and measures them. Nothing is written.

    Memory is that of the process since it began, so a process of its own gives the clearest figures.

    Args:
      hparams: the settings.
      data: what to train on.
      strategy: the `tf.distribute.Strategy` that trains.
      options: max_tokens_per_replica, xla_compile, peak_tflops and random_seed count.
      num_steps: steps that are timed, at least 1.
      warmup_steps: steps before them, which trace, compile and allocate.

    Raises:
      UserError: if the settings do not suit the data, or memory runs out.
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
    batches = distribute_batches(strategy, data.batches(hparams, options.random_seed), micro_batches)
    train_step = TrainStep(strategy, model, optimizer, batches.element_spec, options.random_seed, options.xla_compile)
    with data.reading():
        try:
            try_every_graph(
                train_step, itertools.islice(batches, warmup_steps + num_steps), micro_batches.static_tokens > 0
            )
            steps, skipped = _time_steps(train_step, iter(batches), num_steps, warmup_steps)
        except tf.errors.ResourceExhaustedError as error:
            raise UserError(
                f"out of memory in {hparams.precision}; use a --max_tokens_per_replica below "
                f"{micro_batches.max_tokens}, or a smaller batch_tokens"
            ) from error
        memory = memory_in_use()  # before anything else is measured here
        delivered = None
        if data.problem is not None:
            delivered = _delivered(batches, max(data.round_of_batches(hparams.batch_tokens), num_steps))
    flops = sum(training_step_flops(hparams, targets_size, *data.mean_lengths()).values())
    return TrainingCost(
        precision=hparams.precision,
        replicas=strategy.num_replicas_in_sync,
        parameters=model.count_params(),
        steps=steps,
        skipped_steps=skipped,
        input_tokens_per_second=delivered,
        counted_flops_per_token=flops / hparams.batch_tokens,
        # Twice, as others on a shared machine only ever take away from it.
        peak_flops=max(peak, peak_flops(strategy, hparams.precision, options.peak_tflops)),
        memory_bytes=memory,
        machine=describe_machine(strategy),
    )


def _time_steps(train_step, batches, num_steps: int, warmup_steps: int) -> tuple[list[TimedStep], int]:
    """Returns the timed steps, and how many of them were skipped."""
    for batch in itertools.islice(batches, warmup_steps):
        train_step(batch)
    steps, skipped = [], 0
    for _ in range(num_steps):
        start = time.perf_counter()
        batch = next(batches)
        waited = time.perf_counter() - start
        report = train_step(batch)
        steps.append(TimedStep(time.perf_counter() - start, waited, report.sums.tokens, report.positions))
        skipped += not report.finite
    return steps, skipped


def try_every_graph(train_step, batches, is_compiled: bool) -> None:
    """Makes a step for each graph that batches need, so that tracing and compiling fall into no timed step.

    Args:
      train_step: function of a batch.
      batches: of `distribute_batches`, those that will come.
      is_compiled: whether each shape is compiled; else only one micro-batch and several of them differ.
    """
    from t2t_lite.training.step.micro_batching import first_replica

    seen = set()
    for batch in batches:
        shapes = [tuple(first_replica(batch[side]).shape) for side in ("inputs", "targets")]
        graph = tuple(shapes) if is_compiled else shapes[0][0] == 1
        if graph not in seen:
            train_step(batch)
        seen.add(graph)


def _delivered(batches, number: int) -> float:
    """Returns the real target tokens a second of so many batches that nobody uses."""
    from t2t_lite.training.step.micro_batching import first_replica

    iterator = iter(batches)
    next(iterator)  # setting up happens once; what is read and sorted once in a round falls into the rest
    # A number and not a time: the workers of several machines have to ask for the same batches.
    start = time.perf_counter()
    tokens = sum(float(first_replica(batch["tokens"])) for batch in itertools.islice(iterator, number))
    return tokens / (time.perf_counter() - start)
