"""Compiles and times training steps under JAX, and divides their time among kinds of work."""

import concurrent.futures
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from dev.accelerator import kernels
from dev.accelerator.batches import MEAN_LENGTH, random_batch
from dev.accelerator.cases import Case, Plan
from dev.accelerator.jax_training import MAX_CHUNK, Steps, TrainState
from dev.accelerator.results import Results
from t2t_lite.cost import cost_of
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import make_model
from t2t_lite.registry import HPARAMS

# By default, XLA launches whole parts of a step on a GPU at once; profiles then do not name the kernels in them.
_ONE_BY_ONE: dict[str, str | bool] = {"xla_gpu_enable_command_buffer": ""}
_SECONDS_OF_COMPILING = 60.0
_PROFILED_STEPS = 3


class MeasuredSteps:
    """Measures the steps of cases. Writes into the results' "steps" and "profiles".

    Args:
      plan: the plan with the cases.
      results: where to write; it must have "products".
      wait: called once steps are compiled, before they are timed; it waits until nothing else uses the device.
    """

    def __init__(self, plan: Plan, results: Results, wait: Callable[[], None]) -> None:
        self._plan, self._results, self._wait = plan, results, wait
        self._models: dict[tuple, tuple[Seq2SeqModel, Steps]] = {}

    def time(self, cases: list[Case]) -> None:
        """Times the steps of all cases."""
        steps = self._results.figures.setdefault("steps", {})
        for case, compiled in self._compile_all(cases, steps, None):
            with self._results.noted("steps", case.name):
                steps[case.name] |= self._time(case, compiled)

    def profile(self, cases: list[Case]) -> None:
        """Divides the time of a step among kinds of work, for all cases."""
        profiles = self._results.figures.setdefault("profiles", {})
        for case, compiled in self._compile_all(cases, profiles, _ONE_BY_ONE):
            with self._results.noted("profiles", case.name):
                profiles[case.name] |= self._profile(case, compiled)

    def parameters(self, case: Case) -> int:
        """Returns the number of parameters of a case's model."""
        return self._model(case)[0].count_params()

    def _compile_all(
        self, cases: list[Case], where: dict[str, dict], options: dict[str, str | bool] | None
    ) -> Iterator[tuple[Case, jax.stages.Compiled]]:
        """Yields (case, compiled step). Compiles all steps before the first yield, because that uses the device."""
        waiting = []
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for case in cases:
                if not self._results.has_time(_SECONDS_OF_COMPILING):
                    where[case.name] = {"not measured": "no time left"}
                    continue
                with self._results.noted("lowering", case.name):
                    start = time.perf_counter()
                    lowered = self._lowered(case)
                    where[case.name] = {"trace_seconds": time.perf_counter() - start}
                    waiting.append((case, pool.submit(_compile, lowered, options)))
        self._wait()
        self._results.write()
        for case, future in waiting:
            with self._results.noted("compiling", case.name):
                compiled, seconds = future.result()
                memory = _compiled_bytes(compiled.memory_analysis())
                where[case.name] |= {"compile_seconds": seconds, "memory_bytes": memory}
                yield case, compiled
                del compiled

    def _model(self, case: Case) -> tuple[Seq2SeqModel, Steps]:
        key = case._replace(target_tokens=0, matmul_precision=None)
        if key not in self._models:
            hparams = HPARAMS[case.hparams_set]().replace(precision=case.precision)
            model = make_model(hparams, self._plan.vocab_size)
            devices = jax.devices()[: case.devices]
            steps = Steps(model, 1 if case.dropout else None, case.max_chunk or MAX_CHUNK, devices)
            self._models[key] = model, steps
        return self._models[key]

    def _batch(self, case: Case) -> dict[str, np.ndarray]:
        devices = case.devices or jax.device_count()
        return random_batch(case.target_tokens * devices, self._plan.vocab_size, devices)

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
        number = max(round(self._plan.seconds / 3 / run(2)), 2)
        times = [run(number) for _ in range(3)]
        seconds = statistics.median(times)
        cost = cost_of(model.hparams, model.vocab_size, model.inputs_vocab_size)
        counted = sum(cost.step_flops(MEAN_LENGTH, MEAN_LENGTH).values()) * pairs
        peak = self._peak(case) * (case.devices or jax.device_count())
        return {
            "step_seconds": seconds,
            "step_seconds_range": [min(times), max(times)],
            "target_tokens_per_second": tokens / seconds,
            "utilisation_by_6_parameters": 6 * model.count_params() * tokens / seconds / peak,
            "utilisation_by_counted_flops": counted / seconds / peak,
            "rows": pairs,
            "target_tokens": tokens,
            **({"devices": case.devices} if case.devices else {}),
        }

    def _peak(self, case: Case) -> float:
        """Returns the operations per second of the fastest measured matrix product in the precision of a case."""
        kind = case.matmul_precision or "bfloat16"
        rates = [rate for name, rate in self._results.figures["products"].items() if name.endswith(kind)]
        return max(rates, default=float("nan")) * 1e12

    def _profile(self, case: Case, compiled: jax.stages.Compiled) -> dict[str, object]:
        state, arrays = self._arguments(case, compiled)
        state, figures = compiled(state, *arrays)
        float(figures[0, 0])

        def run() -> None:
            nonlocal state
            for _ in range(_PROFILED_STEPS):
                state, figures = compiled(state, *arrays)
            float(figures[0, 0])

        with tempfile.TemporaryDirectory() as folder:
            profiled_kernels = kernels.profile(run, folder)
        names = kernels.op_names(compiled.as_text() or "")
        return {
            "milliseconds_by_kind": kernels.time_by_kind(profiled_kernels, names, _PROFILED_STEPS),
            "largest": kernels.largest(profiled_kernels, names, _PROFILED_STEPS),
        }


def _compile(lowered: jax.stages.Lowered, options: dict[str, str | bool] | None) -> tuple[jax.stages.Compiled, float]:
    start = time.perf_counter()
    is_gpu = jax.default_backend() == "gpu"
    compiled = lowered.compile(compiler_options=options if is_gpu else None)
    return compiled, time.perf_counter() - start


def _compiled_bytes(memory: object) -> int:
    """Returns the memory that a compiled step needs, in bytes: for state, batch and intermediate values."""
    sizes = {part: getattr(memory, f"{part}_size_in_bytes") for part in ("argument", "output", "temp", "alias")}
    return sizes["argument"] + sizes["output"] + sizes["temp"] - sizes["alias"]
