"""Measures TensorFlow's training steps, each in a process of its own, because devices belong to a process.

python -m dev.accelerator.tensorflow_steps REQUEST.pickle RESULT.pickle

This is one of several processes that measure together, see `measured_in_processes`.
"""

import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dev.accelerator.batches import LONGEST, MEAN_LENGTH, random_batch
from dev.accelerator.cases import Case
from t2t_lite.benchmark.process import TrainingData, in_a_process, random_data
from t2t_lite.errors import UserError
from t2t_lite.registry import HPARAMS
from t2t_lite.system.tensorflow import prepare_process
from t2t_lite.training.launcher import Launcher
from t2t_lite.training.options import TrainOptions

if TYPE_CHECKING:
    import tensorflow as tf

    from dev.accelerator.cases import Search

_NO_DROPOUT = {"residual_dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}
_STEPS = 10  # timed steps


class Machine(NamedTuple):
    """The devices of this machine."""

    gpus: int  # 0: virtual devices of the CPU stand in for them
    virtual: int  # number of virtual devices
    names: list[str]
    versions: dict[str, str]

    @property
    def count(self) -> int:
        """The number of devices."""
        return self.gpus or self.virtual


def find_machine(virtual: int) -> Machine:
    """Returns the devices of this machine. Called in a process of its own.

    Args:
      virtual: number of virtual devices of a CPU, if there are no GPUs.
    """
    import keras
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__, "numpy": np.__version__}
    return Machine(len(gpus), virtual, [f"gpu: {name}" for name in names] or ["cpu"] * virtual, versions)


def products(size: int) -> dict[str, float]:
    """Returns the TFLOP/s of the product of two square matrices in each precision. Called in a process of its own."""
    import tensorflow as tf

    from t2t_lite.training.devices import matmul_gflops

    rates = {}
    for dtype, name in (("bfloat16", "bfloat16"), ("float32", "tensorfloat32"), ("float32", "highest")):
        tf.config.experimental.enable_tensor_float_32_execution(name == "tensorfloat32")
        rates[f"{size}, {name}"] = matmul_gflops(size, dtype) / 1e3
    return rates


class PaddedData(TrainingData):
    """The lengths of the random batches of all backends, see `random_batch`."""

    def mean_lengths(self) -> tuple[float, float]:
        """See the base class."""
        return MEAN_LENGTH, MEAN_LENGTH


class StepRequest(NamedTuple):
    """A training step to measure."""

    case: Case
    vocab_size: int
    xla_compile: bool | None = None  # whether XLA compiles it; None: only on GPUs
    in_processes: bool = False  # whether each device has a process of its own


def time_steps(request: StepRequest, machine: Machine) -> dict[str, Any]:
    """Returns the figures of a training step, in the names of `jax_steps`."""
    if request.in_processes:
        return measured_in_processes(machine, _time_steps, request, machine)
    return measured(_time_steps, request, machine)


def _time_steps(request: StepRequest, machine: Machine) -> dict[str, Any]:
    """Measures in this process, which may be one of several."""
    import tensorflow as tf

    from t2t_lite.benchmark.training import measure_training
    from t2t_lite.training.devices import resolve_auto

    case, devices = request.case, request.case.devices or machine.count
    tf.config.experimental.enable_tensor_float_32_execution(case.matmul_precision != "highest")
    strategy, memory = devices_of(machine, 1 if request.in_processes else devices, request.in_processes)
    hparams = HPARAMS[case.hparams_set]().replace(
        precision=case.precision, batch_tokens=case.target_tokens * devices, batch_by="auto"
    )
    hparams, compiled, _ = resolve_auto(strategy, hparams, request.xla_compile)
    hparams = hparams.replace(**({} if case.dropout else _NO_DROPOUT))
    data = PaddedData(random_data(request.vocab_size, LONGEST, LONGEST).manifest)
    batch = random_batch(hparams.batch_tokens, request.vocab_size, devices)  # the same as under JAX
    options = TrainOptions(xla_compile=compiled, free_bytes=memory)
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    cost = measure_training(hparams, data, strategy, options, _STEPS, batches=batches)
    same = ("step_seconds", "target_tokens_per_second", "utilisation_by_6_parameters", "utilisation_by_counted_flops")
    return {
        **{name: cost.figures[name] for name in (*same, "compile_seconds", "parameters")},
        "memory_bytes": cost.figures["peak_memory_bytes"],
        "target_tokens": cost.steps[0].target_tokens,
        "xla_compile": compiled,
        **({"devices": case.devices, "in_processes": request.in_processes} if case.devices else {}),
    }


def devices_of(
    machine: Machine, number: int, in_processes: bool = False
) -> "tuple[tf.distribute.Strategy, int | None]":
    """Returns a strategy for some of the devices, and the free memory of each in bytes."""
    from t2t_lite.training.devices import device_memory, make_strategy

    if in_processes:
        return make_strategy("multi_worker"), device_memory()
    virtual = 0 if machine.gpus or number == 1 else number
    memory = device_memory(virtual)
    return make_strategy("auto", number if machine.gpus else None, virtual), memory


def all_reduce_rate(num_bytes: int, machine: Machine) -> float:
    """Returns the rate of a sum over all devices, see `jax_machine.all_reduce_rate`. Called in a process of its own."""
    import tensorflow as tf

    strategy, _ = devices_of(machine, machine.count)
    with strategy.scope():
        array = tf.Variable(tf.ones([num_bytes // 4]))

    @tf.function
    def total() -> Any:  # noqa: ANN401  a tensor on each device
        def on_replica() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, array.read_value())[0]

        return strategy.run(on_replica)

    def run() -> float:
        start = time.perf_counter()
        for local in strategy.experimental_local_results(total()):
            local.numpy()
        return time.perf_counter() - start

    run()
    return 2 * (machine.count - 1) / machine.count * num_bytes / min(run() for _ in range(10))


def losses(
    hparams_set: str,
    changes: dict[str, Any],
    batches: dict[str, np.ndarray],
    vocab_size: int,
    machine: Machine,
    devices: int,
    in_processes: bool = False,
) -> tuple[list[float], np.ndarray]:
    """Trains a new model on the given batches. Called in a process of its own.

    Returns (the loss of each step without label smoothing, in nats; all weights after the steps, float32).
    """
    import tensorflow as tf

    from t2t_lite.training.devices import resolve_auto
    from t2t_lite.training.micro_batching import MicroBatches, distribute_batches
    from t2t_lite.training.step import TrainStep, build_model

    strategy, _ = devices_of(machine, devices, in_processes)
    hparams = HPARAMS[hparams_set]().replace(**changes)
    model, optimizer = build_model(hparams, vocab_size, strategy, 1)
    dataset = tf.data.Dataset.from_tensor_slices(batches)  # pyright: ignore[reportArgumentType]
    data = distribute_batches(strategy, dataset, MicroBatches())
    compiled = resolve_auto(strategy, hparams.replace(batch_by="auto"), None).xla_compile
    step = TrainStep(strategy, model, optimizer, data.element_spec, 1, compiled)
    sums = [step(batch).sums for batch in data]
    weights = np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])
    return [round(float(each.plain / each.tokens), 5) for each in sums], weights


def search_rate(about: "Search", vocab_size: int, xla_compile: bool) -> dict[str, float]:
    """Returns the speed of the decoder's beam search with random weights. Called in a process of its own."""
    from t2t_lite.decoding.search.beam_search import BeamSearch
    from t2t_lite.decoding.search.beam_state import SearchInputs
    from t2t_lite.decoding.search.searcher import Searcher
    from t2t_lite.models.building import make_model

    precision = "mixed_bfloat16" if xla_compile else "float32"
    model = make_model(HPARAMS[about.hparams_set]().replace(precision=precision), vocab_size)
    search = BeamSearch(vocab_size, about.beam_size, alpha=0.6, min_length=about.steps)
    searcher = Searcher(model, search, about.batch * 64, xla_compile)
    inputs = random_batch(round(about.batch * MEAN_LENGTH), vocab_size)["inputs"]
    limits = SearchInputs(np.full(len(inputs), about.steps, np.int32))
    times = []
    for _ in range(4):
        start = time.perf_counter()
        found = searcher(inputs, limits)
        times.append(time.perf_counter() - start)
    tokens, seconds = int(np.sum(found.lengths[:, 0])), min(times[1:])
    return {"first_seconds": times[0], "seconds": seconds, "tokens_per_second": tokens / seconds}


def measured(function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """Calls a function in a process of its own, with all registered names loaded."""
    return in_a_process(loaded, function, arguments)


def measured_in_processes(machine: Machine, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """Calls a function in one process for each device, which train together. Returns the first one's result.

    Raises:
      UserError: if a process ends with an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        request, result = Path(folder) / "request.pickle", Path(folder) / "result.pickle"
        request.write_bytes(pickle.dumps((function, arguments)))
        command = [sys.executable, "-P", "-m", "dev.accelerator.tensorflow_steps", str(request), str(result)]
        status = Launcher(command, machine.count, 0, Path(folder), lambda line: None).run()
        if status:
            raise UserError(f"the training processes ended with exit status {status}")
        return pickle.loads(result.read_bytes())


def loaded(function: Callable[..., Any], arguments: Sequence[object]) -> Any:  # noqa: ANN401
    """Calls a function after loading TensorFlow and all registered names."""
    from t2t_lite.plugins import load_all
    from t2t_lite.system.tensorflow import import_tensorflow

    load_all()
    import_tensorflow()
    return function(*arguments)


def main(request: str, result: str) -> None:
    """Calls the function in the request; the first process writes the result."""
    prepare_process()
    found = loaded(*pickle.loads(Path(request).read_bytes()))
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        Path(result).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
