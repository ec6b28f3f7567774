"""Measures training steps, their parts, beam search and loss curves under JAX. Writes each result when it is known.

KERAS_BACKEND=jax python -m t2t_lite.benchmark.accelerator.under_jax RESULTS.json SECONDS [READY_FILE [BATCHES.npz]]
"""

import concurrent.futures
import contextlib
import functools
import json
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import keras
import numpy as np

from t2t_lite.benchmark.accelerator import kernels
from t2t_lite.benchmark.accelerator.batches import MEAN_LENGTH, random_batch
from t2t_lite.benchmark.accelerator.cases import ACCELERATOR, BFLOAT16, CPU, FLOAT32, Case, Plan
from t2t_lite.benchmark.accelerator.stored_batches import StoredBatches, read_batches
from t2t_lite.files import write_text
from t2t_lite.jax.search import beam_search
from t2t_lite.jax.step import MAX_CHUNK, Steps, TrainState
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import make_model
from t2t_lite.plugins import load_all
from t2t_lite.registry import HPARAMS

# By default, XLA launches whole parts of a step on a GPU at once; profiles then do not name the kernels in them.
_ONE_BY_ONE: dict[str, str | bool] = {"xla_gpu_enable_command_buffer": ""}
_SECONDS_OF_COMPILING = 60.0
# With a shorter warm-up, training on 200 small batches diverges in both precisions.
_CURVES = {"learning_rate_warmup_steps": 1600}


class Measurement:
    """Takes the measurements in a plan until a deadline.

    Args:
      plan: the measurements to take.
      results: a JSON file, written after each measurement.
      deadline: the `time.monotonic` time after which no measurement starts.
      wait_for: a file that must exist before steps are timed. Until then, another process uses the device.
    """

    def __init__(self, plan: Plan, results: Path, deadline: float, wait_for: Path | None = None) -> None:
        self.plan, self._file, self._deadline, self._wait_for = plan, results, deadline, wait_for
        self.figures: dict[str, dict] = {"machine": describe(), "products": {}, "steps": {}, "profiles": {}}
        self._models: dict[tuple, tuple[Seq2SeqModel, Steps]] = {}
        self._states: dict[tuple, TrainState] = {}

    def run(self) -> None:
        """Takes all measurements except the loss curves, most valuable first."""
        with self._noted("products"):
            self.figures["products"] = {name: rate for size in self.plan.products for name, rate in products(size)}
        self._write()
        for case, compiled in self._compile_all(self.plan.cases, None):
            with self._noted("steps", case.name):
                self.figures["steps"][case.name] |= self._time(case, compiled)
        with self._noted("search"):
            self.figures["search"] = self._search()
        for case, compiled in self._compile_all(self.plan.profiled, _ONE_BY_ONE):
            with self._noted("profiles", case.name):
                self.figures["profiles"][case.name] |= self._profile(case, compiled)

    def curves(self, batches: StoredBatches) -> None:
        """Trains on the same batches in float32 and bfloat16, and records both loss curves."""
        number, rows = self.plan.curves_steps, len(batches.inputs[0]) // jax.device_count() * jax.device_count()
        inputs, targets = (side[:number, :rows] for side in (batches.inputs, batches.targets))
        weights = None
        for precision in (FLOAT32, BFLOAT16):
            if time.monotonic() > self._deadline:
                self.figures.setdefault("curves", {})["not measured"] = "no time left"
                break
            with self._noted("curves", precision):
                hparams = HPARAMS[self.plan.curves_set]().replace(precision=precision, **_CURVES)
                model = make_model(hparams, batches.vocab_size)
                if weights is None:
                    weights = model.get_weights()
                model.set_weights(weights)
                steps = Steps(model, 1)
                _, figures = steps(steps.start(), inputs, targets)
                losses = [round(float(loss), 5) for loss in np.asarray(figures)[:, 1]]
                self.figures.setdefault("curves", {})[precision] = losses

    def _write(self) -> None:
        write_text(self._file, json.dumps(self.figures, indent=1))

    @contextlib.contextmanager
    def _noted(self, *where: str) -> Iterator[None]:
        """Writes the results after the block. Records an error in the block, so that other measurements continue."""
        try:
            yield
        except Exception as error:  # devices and libraries may raise anything
            lines = traceback.format_exc().splitlines()
            self.figures.setdefault("errors", {})[": ".join(where)] = [f"{error}"[:1000], *lines[-6:]]
        self._write()

    def _compile_all(self, cases: list[Case], options: dict[str, str | bool] | None) -> Iterator[tuple]:
        """Yields (case, compiled step). Compiles all steps before the first yield, because that uses the device."""
        waiting = []
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for case in cases:
                where = self.figures["profiles" if options else "steps"]
                if time.monotonic() > self._deadline - _SECONDS_OF_COMPILING:
                    where[case.name] = {"not measured": "no time left"}
                    continue
                with self._noted("lowering", case.name):
                    start = time.perf_counter()
                    lowered = self._lowered(case)
                    where[case.name] = {"trace_seconds": time.perf_counter() - start}
                    waiting.append((case, pool.submit(_compile, lowered, options)))
        while self._wait_for and not self._wait_for.exists() and time.monotonic() < self._deadline:
            time.sleep(0.1)
        self._write()
        for case, future in waiting:
            with self._noted("compiling", case.name):
                compiled, seconds = future.result()
                if options is None:
                    self.figures["steps"][case.name] |= {
                        "compile_seconds": seconds,
                        "memory_bytes": _compiled_bytes(compiled.memory_analysis()),
                    }
                yield case, compiled
                del compiled

    def _model(self, case: Case) -> tuple[Seq2SeqModel, Steps]:
        key = (case.hparams_set, case.precision, case.dropout, case.max_chunk)
        if key not in self._models:
            hparams = HPARAMS[case.hparams_set]().replace(precision=case.precision, batch_tokens=case.target_tokens)
            model = make_model(hparams, self.plan.vocab_size)
            steps = Steps(model, 1 if case.dropout else None, max_chunk=case.max_chunk or MAX_CHUNK)
            self._models[key] = model, steps
        return self._models[key]

    def _batch(self, case: Case) -> dict[str, np.ndarray]:
        devices = jax.device_count()
        return random_batch(case.target_tokens * devices, self.plan.vocab_size, devices)

    def _lowered(self, case: Case) -> jax.stages.Lowered:
        _, steps = self._model(case)
        batch = self._batch(case)
        shapes = [jax.ShapeDtypeStruct((1, *batch[side].shape), jnp.int32) for side in ("inputs", "targets")]
        precision = jax.default_matmul_precision(case.matmul_precision)
        with precision if case.matmul_precision else contextlib.nullcontext():
            return steps.jitted.lower(jax.eval_shape(steps.start), *shapes)

    def _arguments(self, case: Case, compiled: jax.stages.Compiled) -> tuple[TrainState, list[jax.Array]]:
        """Returns the state and the batch on the devices, in the layout that the compiled step expects."""
        _, steps = self._model(case)
        batch = self._batch(case)
        (shardings, *of_batch), _ = compiled.input_shardings
        state = jax.device_put(steps.start(), shardings)
        arrays = [jax.device_put(batch[side][None], to) for side, to in zip(("inputs", "targets"), of_batch)]
        return state, arrays

    def _time(self, case: Case, compiled: jax.stages.Compiled) -> dict[str, object]:
        model, _ = self._model(case)
        state, arrays = self._arguments(case, compiled)
        tokens, pairs = int((np.asarray(arrays[1]) != 0).sum()), arrays[1].shape[1]

        def run(number: int) -> float:
            nonlocal state
            start = time.perf_counter()
            for _ in range(number):
                state, figures = compiled(state, *arrays)
            last = float(figures[0, 1])
            if not np.isfinite(last):
                raise ValueError(f"the loss is {last}")
            return (time.perf_counter() - start) / number

        run(2)
        number = max(round(self.plan.seconds / 3 / run(2)), 2)
        times = [run(number) for _ in range(3)]
        seconds = statistics.median(times)
        counted = sum(model.step_flops(MEAN_LENGTH, MEAN_LENGTH).values()) * pairs
        peak = self._peak(case) * jax.device_count()
        return {
            "step_seconds": seconds,
            "step_seconds_range": [min(times), max(times)],
            "target_tokens_per_second": tokens / seconds,
            "utilisation_by_6_parameters": 6 * model.count_params() * tokens / seconds / peak,
            "utilisation_by_counted_flops": counted / seconds / peak,
            "rows": pairs,
            "target_tokens": tokens,
        }

    def _peak(self, case: Case) -> float:
        """Returns the operations per second of the fastest measured matrix product in the precision of a case."""
        kind = case.matmul_precision or "bfloat16"
        rates = [rate for name, rate in self.figures["products"].items() if name.endswith(kind)]
        return max(rates, default=float("nan")) * 1e12

    def _profile(self, case: Case, compiled: jax.stages.Compiled) -> dict[str, object]:
        state, arrays = self._arguments(case, compiled)
        state, figures = compiled(state, *arrays)
        float(figures[0, 0])
        number = 3

        def run() -> None:
            nonlocal state
            for _ in range(number):
                state, figures = compiled(state, *arrays)
            float(figures[0, 0])

        with tempfile.TemporaryDirectory() as folder:
            profiled_kernels = kernels.profile(run, folder)
        names = kernels.op_names(compiled.as_text() or "")
        return {
            "milliseconds_by_kind": kernels.time_by_kind(profiled_kernels, names, number),
            "largest": kernels.largest(profiled_kernels, names, number),
        }

    def _search(self) -> dict[str, float]:
        about = self.plan.search
        model = make_model(HPARAMS[about.hparams_set]().replace(precision=BFLOAT16), self.plan.vocab_size)
        inputs = random_batch(round(about.batch * MEAN_LENGTH), self.plan.vocab_size)["inputs"]
        weights = [variable.value for variable in model.trainable_variables]

        @jax.jit
        def search(weights: list[jax.Array], inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
            with keras.StatelessScope(state_mapping=list(zip(model.trainable_variables, weights))):
                return beam_search(model, inputs, about.beam_size, about.steps)

        times = []
        for _ in range(4):
            start = time.perf_counter()
            np.asarray(search(weights, inputs)[0])
            times.append(time.perf_counter() - start)
        seconds = min(times[1:])
        tokens = about.batch * about.steps
        return {"first_seconds": times[0], "seconds": seconds, "tokens_per_second": tokens / seconds}


def describe() -> dict[str, object]:
    """Returns the devices and the library versions."""
    devices = jax.devices()
    return {
        "devices": [f"{device.platform}: {device.device_kind}" for device in devices],
        "jax": jax.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }


def _compiled_bytes(memory: object) -> int:
    """Returns the memory that a compiled step needs, in bytes: for state, batch and intermediate values."""
    sizes = {part: getattr(memory, f"{part}_size_in_bytes") for part in ("argument", "output", "temp", "alias")}
    return sizes["argument"] + sizes["output"] + sizes["temp"] - sizes["alias"]


def products(size: int) -> Iterator[tuple[str, float]]:
    """Yields (name, TFLOP/s) for the product of two random square matrices in each precision."""
    for dtype, precision in (("bfloat16", None), ("float32", "tensorfloat32"), ("float32", "highest")):
        x, y = (jax.random.normal(jax.random.key(seed), (size, size), dtype) for seed in (1, 2))
        product = jax.jit(functools.partial(jnp.matmul, precision=precision))
        yield f"{size}, {precision or dtype}", 2 * size**3 / _best(product, x, y) / 1e12


def _best(compute: Callable[..., jax.Array], *arguments: jax.Array, number: int = 10) -> float:
    """Returns the seconds per computation: the lowest of the mean times of several series."""
    compute(*arguments).block_until_ready()
    means = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(number):
            result = compute(*arguments)
        result.block_until_ready()
        means.append((time.perf_counter() - start) / number)
    return min(means)


def _compile(lowered: jax.stages.Lowered, options: dict[str, str | bool] | None) -> tuple[jax.stages.Compiled, float]:
    start = time.perf_counter()
    is_gpu = jax.default_backend() == "gpu"
    compiled = lowered.compile(compiler_options=options if is_gpu else None)
    return compiled, time.perf_counter() - start


def main(results: str, seconds: str, ready_file: str = "", batches_file: str = "") -> None:
    """Takes the measurements in the plan for this machine; see the module and `Measurement`."""
    deadline = time.monotonic() + float(seconds)
    load_all()
    plan = CPU if jax.default_backend() == "cpu" else ACCELERATOR
    measurement = Measurement(plan, Path(results), deadline, Path(ready_file) if ready_file else None)
    measurement.run()
    if batches_file:
        measurement.curves(read_batches(Path(batches_file)))


if __name__ == "__main__":
    main(*sys.argv[1:])
