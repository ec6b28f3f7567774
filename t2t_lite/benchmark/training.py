"""Measures the cost of training: the time, memory and device utilisation of its steps."""

import dataclasses
import itertools
import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import keras
import tensorflow as tf

from t2t_lite.benchmark.training_cost import Machine, TimedStep, TrainingCost, TrainingData
from t2t_lite.config import HParams
from t2t_lite.cost import cost_of
from t2t_lite.errors import UserError
from t2t_lite.system.machine import cpu_threads
from t2t_lite.training.devices import device_memory, make_strategy, matmul_gflops, peak_flops, resolve_auto
from t2t_lite.training.micro_batching import DistributedBatch, bound_micro_batches, distribute_batches, first_replica
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.reports import memory_in_use
from t2t_lite.training.step import StepReport, TrainStep, build_model


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
) -> TrainingCost:
    """Trains a new model for a few steps and measures the last `num_steps`. Writes nothing.

    Peak memory counts from the start of the process, so use a separate process for accurate values. Only the options
    max_tokens_per_replica, free_bytes, xla_compile, peak_tflops and random_seed have an effect.
    """
    data.check(hparams)
    inputs_size, targets_size = data.vocab_sizes()
    micro_batches = bound_micro_batches(hparams, data.manifest, inputs_size, targets_size, strategy, options)
    peak = peak_flops(strategy, hparams.precision, options.peak_tflops)
    model, optimizer = build_model(hparams, targets_size, strategy, options.random_seed, inputs_size)
    is_compiled = bool(options.xla_compile)
    with data.reading():
        batches = distribute_batches(strategy, data.batches(hparams, options.random_seed), micro_batches)
        about = (batches.element_spec, options.random_seed, is_compiled, micro_batches.num_parallel)
        train_step = TrainStep(strategy, model, optimizer, *about)
        first = itertools.islice(batches, warmup_steps + num_steps)
        start = time.perf_counter()
        try:
            try_every_graph(train_step, first, is_compiled or micro_batches.static_tokens > 0)
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
    flops = sum(cost_of(hparams, targets_size, inputs_size).training_flops(*data.mean_lengths()).values())
    return TrainingCost(
        precision=hparams.precision,
        batch_by=hparams.batch_by,
        xla_compile=is_compiled,
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
    train_step: Callable[[DistributedBatch], StepReport],
    batches: Iterator[DistributedBatch],
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


def _pipeline_speed(batches: Iterable[DistributedBatch], number: int) -> float:
    """Returns the speed of reading `number` batches without training, in non-padding target tokens per second."""
    iterator = iter(batches)
    next(iterator)  # excludes the setup; the batches below still include reading and sorting a window
    # Read a fixed number of batches, not for a fixed time, because all workers must request the same batches.
    start = time.perf_counter()
    tokens = sum(float(first_replica(batch["tokens"])) for batch in itertools.islice(iterator, number))
    return tokens / (time.perf_counter() - start)


def describe_machine(strategy: tf.distribute.Strategy) -> Machine:
    if strategy is tf.distribute.get_strategy():  # TensorFlow's default strategy, which lists no devices
        names = [(tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU"))[0].name]
    else:
        names = strategy.extended.worker_devices
    devices = []  # such as "GPU:0 (NVIDIA A100)"
    for name in [name.split("device:")[1] for name in names]:
        kind, number = name.split(":")
        what = _processor() if kind == "CPU" else None
        if kind == "GPU":
            gpu = tf.config.get_visible_devices("GPU")[int(number)]
            what = tf.config.experimental.get_device_details(gpu).get("device_name")
        devices.append(f"{name} ({what})" if what else name)
    return Machine(
        devices=devices,
        threads=cpu_threads(),
        matmul_gflops=matmul_gflops(),
        tensorflow=tf.__version__,
        keras=keras.__version__,
        python=platform.python_version(),
    )


def _processor() -> str:
    try:
        model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        model = None
    return model[1].strip() if model else platform.processor() or platform.machine()
