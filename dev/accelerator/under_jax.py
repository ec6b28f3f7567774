"""Measures training steps, their parts, beam search and loss curves under JAX. Writes each result when it is known.

KERAS_BACKEND=jax python -m dev.accelerator.under_jax RESULTS.json SECONDS ARGUMENTS

ARGUMENTS is a JSON object with `ready_file`, `batches_file`, `export_dir` and `trained_dir`, all optional; the last
three are those of `processes.Wanted`.
"""

import json
import sys
import time
from pathlib import Path

import jax
import keras
import numpy as np

from dev.accelerator import jax_machine
from dev.accelerator.batches import MEAN_LENGTH, random_batch
from dev.accelerator.cases import BFLOAT16, FLOAT32, Plan, plan_for, scaled
from dev.accelerator.jax_steps import MeasuredSteps
from dev.accelerator.jax_training import Steps, beam_search
from dev.accelerator.results import Results
from dev.accelerator.stored_batches import StoredBatches, read_batches
from dev.accelerator.trained_models import StartingModel
from t2t_lite.models.building import make_model
from t2t_lite.plugins import load_all
from t2t_lite.registry import HPARAMS


class Measurement:
    """Takes the measurements in a plan until the deadline of the results, most valuable first.

    Args:
      plan: the measurements to take.
      results: where to write them.
      wait_for: a file that must exist before steps are timed. Until then, another process uses the device.
    """

    def __init__(self, plan: Plan, results: Results, wait_for: Path | None = None) -> None:
        self.plan, self._results, self._wait_for = plan, results, wait_for
        self._figures = results.figures
        self._steps = MeasuredSteps(plan, results, self._wait)

    def run(self) -> None:
        """Takes all measurements except the loss curves."""
        with self._results.noted("products"):
            rates = {name: rate for size in self.plan.products for name, rate in jax_machine.products(size)}
            self._figures["products"] = rates
        self._steps.time(self.plan.cases)
        with self._results.noted("search"):
            self._figures["search"] = self._search()
        self._steps.profile(self.plan.profiled)
        if jax.device_count() > 1:
            self._steps.time(scaled(self.plan.scaling, jax.device_count()))
            with self._results.noted("all-reduce"):
                num_bytes = 4 * self._steps.parameters(self.plan.scaling)
                rate = jax_machine.all_reduce_rate(num_bytes)
                self._figures["all_reduce"] = {"bytes": num_bytes, "bytes_per_second": rate}

    def curves(self, batches: StoredBatches, export_dir: Path | None, trained_dir: Path | None) -> None:
        """Trains on the same batches in float32 and bfloat16, and records both loss curves.

        Args:
          batches: the batches.
          export_dir: an export of a Keras model to start from; None: a new model of the plan's set.
          trained_dir: where to export the model that was trained in float32; None: nowhere.
        """
        self._figures["shapes"] = batches.shapes
        number, rows = self.plan.curves_steps, len(batches.inputs[0]) // jax.device_count() * jax.device_count()
        inputs, targets = (side[:number, :rows] for side in (batches.inputs, batches.targets))
        start = StartingModel(self.plan.curves_set, batches.vocab_size, export_dir)
        for precision in (FLOAT32, BFLOAT16):
            if not self._results.has_time():
                self._results.note_no_time("curves")
                break
            with self._results.noted("curves", precision):
                model = start.model(precision)
                steps = Steps(model, 1)
                state, figures = steps(steps.start(), inputs, targets)
                losses = [round(float(loss), 5) for loss in np.asarray(figures)[:, 1]]
                self._figures.setdefault("curves", {})[precision] = losses
                if trained_dir is not None and precision == FLOAT32:
                    for variable, weight in zip(model.trainable_variables, state.weights):
                        variable.assign(weight)
                    start.export(model, number, trained_dir)

    def _wait(self) -> None:
        while self._wait_for and not self._wait_for.exists() and self._results.has_time():
            time.sleep(0.1)

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


def main(results: str, seconds: str, arguments: str) -> None:
    """Takes the measurements in the plan for this machine; see the module and `Measurement`."""
    deadline, given = time.monotonic() + float(seconds), json.loads(arguments)
    load_all()
    plan = plan_for(jax.default_backend() != "cpu")
    ready, batches, export_dir, trained_dir = (
        Path(given[name]) if given.get(name) else None
        for name in ("ready_file", "batches_file", "export_dir", "trained_dir")
    )
    measured = Results(Path(results), {"machine": jax_machine.describe()}, deadline)
    measurement = Measurement(plan, measured, ready)
    measurement.run()
    if batches is not None:
        measurement.curves(read_batches(batches), export_dir, trained_dir)


if __name__ == "__main__":
    main(*sys.argv[1:])
