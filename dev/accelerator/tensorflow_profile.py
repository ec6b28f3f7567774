"""Divides the time of TensorFlow's training step, compiled by XLA, among kinds of work."""

import glob
import os
import tempfile
from pathlib import Path
from typing import Any

from dev.accelerator import kernels
from dev.accelerator.cases import Case
from dev.accelerator.kernels import Kernel, is_kernel
from dev.accelerator.tensorflow_steps import Machine, measured

_STEPS = 3


def profile(case: Case, vocab_size: int, machine: Machine) -> dict[str, Any]:
    """Returns the time of a step by kind of work, and its largest kernels, in the names of `jax_steps`."""
    with tempfile.TemporaryDirectory() as folder:
        # XLA writes its compiled programs, which say to which layer an instruction belongs.
        before = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{before} --xla_dump_to={folder}/programs --xla_dump_hlo_as_text".strip()
        try:
            measured(_run, case, vocab_size, machine, folder)
        finally:
            os.environ["XLA_FLAGS"] = before
        names: dict[str, str] = {}
        for file in sorted(glob.glob(f"{folder}/programs/*after_optimizations.txt")):
            names |= kernels.op_names(Path(file).read_text())
        found = measured(_kernels, folder, machine.gpus == 0)
    return {
        "milliseconds_by_kind": kernels.time_by_kind(found, names, _STEPS),
        "largest": kernels.largest(found, names, _STEPS),
    }


def _run(case: Case, vocab_size: int, machine: Machine, folder: str) -> None:
    """Profiles some steps. Called in a process of its own."""
    import tensorflow as tf

    from dev.accelerator.batches import random_batch
    from dev.accelerator.tensorflow_steps import devices_of
    from t2t_lite.registry import HPARAMS
    from t2t_lite.training.micro_batching import MicroBatches, distribute_batches
    from t2t_lite.training.step import TrainStep, build_model

    strategy, _ = devices_of(machine, 1)
    hparams = HPARAMS[case.hparams_set]().replace(precision=case.precision)
    model, optimizer = build_model(hparams, vocab_size, strategy, 1)
    batch = tf.data.Dataset.from_tensors(random_batch(case.target_tokens, vocab_size)).repeat()
    data = distribute_batches(strategy, batch, MicroBatches())
    step = TrainStep(strategy, model, optimizer, data.element_spec, 1, xla_compile=True)
    batches = iter(data)
    for _ in range(2):
        step(next(batches))
    tf.profiler.experimental.start(folder)
    for _ in range(_STEPS):
        step(next(batches))
    tf.profiler.experimental.stop()


def _kernels(folder: str, on_cpu: bool) -> list[Kernel]:
    """Returns the kernels in the profile of a folder. Called in a process of its own, because it needs TensorFlow."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (file,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
    space = xplane_pb2.XSpace.FromString(Path(file).read_bytes())  # pyright: ignore[reportAttributeAccessIssue]
    found = []
    for plane in space.planes:
        if ("CPU" in plane.name) != on_cpu:
            continue
        stats, events = plane.stat_metadata, plane.event_metadata
        for line in plane.lines:
            for event in line.events:
                values = {stats[stat.metadata_id].name: stat for stat in event.stats}
                # On a GPU, kernels outside of XLA's programs, such as the optimizer's, have the operation's name.
                op = values.get("hlo_op") or (None if on_cpu else values.get("tf_op"))
                if op is not None:
                    name = stats[op.ref_value].name if op.HasField("ref_value") else op.str_value
                    if is_kernel(name):
                        found.append(Kernel(events[event.metadata_id].name, name, event.duration_ps / 1e6))
    return found
