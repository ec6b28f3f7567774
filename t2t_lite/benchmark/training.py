"""Measures the cost of training: the time, memory and device utilisation of its steps."""

import contextlib
import dataclasses
import itertools
import math
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.benchmark.process import TrainingData
from t2t_lite.config import HParams
from t2t_lite.cost import cost_of
from t2t_lite.data.pipeline import epochs, reading_shards, window_size
from t2t_lite.errors import UserError
from t2t_lite.system.machine import cpu_threads
from t2t_lite.training.devices import device_memory, make_strategy, matmul_gflops, peak_flops, resolve_auto
from t2t_lite.training.micro_batching import DistributedBatch, bound_micro_batches, distribute_batches, first_replica
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.reports import memory_in_use
from t2t_lite.training.step import TrainStep, build_model


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


class TrainingCost(NamedTuple):
    # The measurements by name. Names include units; times and rates are medians over the steps.
    figures: dict[str, Any]
    steps: list[TimedStep]
    machine: Machine


def measure(
    hparams: HParams, data: TrainingData, options: TrainOptions, num_steps: int, warmup_steps: int
) -> TrainingCost:
    """Measures on the devices that `options` names, with the precision and the compilation that training would use."""
    options = dataclasses.replace(options, free_bytes=device_memory(options.virtual_devices))
    strategy = make_strategy(
        options.strategy, options.num_gpus, options.virtual_devices, options.xla_compile, options.worker_timeout
    )
    hparams, compiles, _ = resolve_auto(strategy, hparams, options.xla_compile)
    options = dataclasses.replace(options, xla_compile=compiles)
    return measure_training(hparams, data, strategy, options, num_steps, warmup_steps)


def measure_training(
    hparams: HParams,
    data: TrainingData,
    strategy: tf.distribute.Strategy,
    options: TrainOptions,
    num_steps: int = 10,
    warmup_steps: int = 3,
    batches: tf.data.Dataset | None = None,
) -> TrainingCost:
    """Trains a new model for a few steps and measures the last `num_steps`. Writes nothing.

    Peak memory counts from the start of the process, so use a separate process for accurate values. Only the options
    max_tokens_per_replica, free_bytes, xla_compile, peak_tflops and random_seed have an effect. Without `batches`, they
    are those of the data.
    """
    data.check(hparams)
    inputs_size, targets_size = data.vocab_sizes()
    micro_batches = bound_micro_batches(hparams, data.manifest, inputs_size, targets_size, strategy, options)
    peak = peak_flops(strategy, hparams.precision, options.peak_tflops)
    model, optimizer = build_model(hparams, targets_size, strategy, options.random_seed, inputs_size)
    is_compiled = bool(options.xla_compile)
    damaged = reading_shards(data.problem.data_name, data.data_dir) if data.problem and data.data_dir else None
    with damaged or contextlib.nullcontext():
        of_data = batches_of(data, hparams, options.random_seed) if batches is None else batches
        distributed = distribute_batches(strategy, of_data, micro_batches)
        about = (distributed.element_spec, options.random_seed, is_compiled, micro_batches.num_parallel)
        train_step = TrainStep(strategy, model, optimizer, *about)
        first = itertools.islice(distributed, warmup_steps + num_steps)
        steps, skipped = [], 0
        start = time.perf_counter()
        try:
            try_every_graph(train_step, first, is_compiled or micro_batches.static_tokens > 0)
            compile_seconds = time.perf_counter() - start
            iterator = iter(distributed)
            for batch in itertools.islice(iterator, warmup_steps):
                train_step(batch)
            for _ in range(num_steps):
                start = time.perf_counter()
                batch = next(iterator)
                waited = time.perf_counter() - start
                report = train_step(batch)
                seconds = time.perf_counter() - start
                steps.append(TimedStep(seconds, waited, float(report.sums.tokens), report.positions))
                skipped += not report.finite
        except tf.errors.ResourceExhaustedError as error:
            raise UserError(
                f"out of memory in {hparams.precision}; set `max_tokens_per_replica` below {micro_batches.max_tokens}, "
                f"or reduce batch_tokens"
            ) from error
        memory = memory_in_use()  # before other measurements increase it
        delivered = None  # random ids need no pipeline
        if data.problem is not None:
            # Read a fixed number of batches, not for a fixed time, because all workers must request the same batches.
            number = max(round_of_batches(data, hparams.batch_tokens), num_steps)
            iterator = iter(distributed)
            next(iterator)  # excludes the setup; the batches below still include reading and sorting a window
            start = time.perf_counter()
            read = sum(float(first_replica(batch["tokens"])) for batch in itertools.islice(iterator, number))
            delivered = read / (time.perf_counter() - start)
    # Take the better of two measurements, because other processes can only slow a measurement down.
    peak = max(peak, peak_flops(strategy, hparams.precision, options.peak_tflops))
    parameters = model.count_params()
    rate = statistics.median(step.target_tokens / step.seconds for step in steps)
    padded_rate = statistics.median(step.padded_target_tokens / step.seconds for step in steps)
    # Operations per target token without padding, including its share of the source.
    flops = sum(cost_of(hparams, targets_size, inputs_size).training_flops(*data.mean_lengths()).values())
    figures = {
        "precision": hparams.precision,
        "xla_compile": is_compiled,
        "devices": strategy.num_replicas_in_sync,
        "parameters": parameters,
        "skipped_steps": skipped,  # gradients were not finite
        "compile_seconds": compile_seconds,  # the first step of each graph: tracing, compilation and the step itself
        "step_seconds": statistics.median(step.seconds for step in steps),
        "target_tokens_per_second": rate,
        "padded_target_tokens_per_second": padded_rate,
        "input_tokens_per_second": delivered,  # of the input pipeline alone
        "utilisation_by_6_parameters": 6 * parameters * rate / peak,
        # A shared machine may be faster during training than during the measurement of its peak.
        "utilisation_by_counted_flops": min(1.0, flops / hparams.batch_tokens * rate / peak),
        "peak_flops_per_second": peak,  # of all devices together
        "peak_memory_bytes": memory,  # up to the last step: the maximum over all GPUs; without GPUs, of the process
    }
    return TrainingCost(figures, steps, describe_machine(strategy))


def batches_of(data: TrainingData, hparams: HParams, seed: int) -> tf.data.Dataset:
    """Returns an endless `tf.data.Dataset` of global batches {"inputs", "targets"}, int32 [rows, length]."""
    if data.problem is not None and data.data_dir is not None:
        return epochs(
            data.problem,
            data.data_dir,
            batch_tokens=hparams.batch_tokens,
            batch_by=hparams.batch_by,
            max_length=hparams.max_length,
            bpe_dropout=hparams.bpe_dropout,
            pair_concatenation=hparams.pair_concatenation,
            seed=seed,
        )
    lengths = {side: int(length) for side, length in zip(("inputs", "targets"), data.mean_lengths())}
    rows = max(round(hparams.batch_tokens / lengths["targets"]), 1)
    generator = np.random.default_rng(seed)
    batch = {
        side: generator.integers(1, size, (rows, lengths[side]), np.int32)
        for side, size in zip(lengths, data.vocab_sizes())
    }
    # Repeat one batch: this costs nothing, and the ids in a batch do not affect the time of a step.
    return tf.data.Dataset.from_tensors(batch).repeat()


def round_of_batches(data: TrainingData, batch_tokens: int) -> int:
    """Returns the number of batches in an epoch or, of a large one, in a window."""
    return math.ceil(window_size(data.manifest.splits["train"]["examples"]) * data.mean_lengths()[1] / batch_tokens)


def try_every_graph(
    train_step: Callable[[DistributedBatch], object], batches: Iterable[DistributedBatch], is_compiled: bool
) -> None:
    """Runs a step with each graph that the batches need, so that timed steps include no tracing or compilation.

    If `is_compiled`, each batch shape has its own graph. Otherwise, batches with a single micro-batch share one graph,
    and those with several share another. The batches come from `distribute_batches`.
    """
    seen = set()
    for batch in batches:
        shapes = [tuple(first_replica(batch[side]).shape) for side in ("inputs", "targets")]
        graph = tuple(shapes) if is_compiled else shapes[0][0] == 1
        if graph not in seen:
            train_step(batch)
        seen.add(graph)


def describe_machine(strategy: tf.distribute.Strategy) -> Machine:
    if strategy is tf.distribute.get_strategy():  # TensorFlow's default strategy, which lists no devices
        names = [(tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU"))[0].name]
    else:
        names = strategy.extended.worker_devices
    devices = []  # such as "GPU:0 (NVIDIA A100)"
    for name in [name.split("device:")[1] for name in names]:
        kind, number = name.split(":")
        what = None
        if kind == "CPU":
            cpuinfo = Path("/proc/cpuinfo")
            model = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text() if cpuinfo.exists() else "")
            what = model[1].strip() if model else platform.processor() or platform.machine()
        if kind == "GPU":
            gpu = tf.config.get_visible_devices("GPU")[int(number)]
            what = tf.config.experimental.get_device_details(gpu).get("device_name")
        devices.append(f"{name} ({what})" if what else name)
    versions = (tf.__version__, keras.__version__, platform.python_version())
    return Machine(devices, cpu_threads(), matmul_gflops(), *versions)
