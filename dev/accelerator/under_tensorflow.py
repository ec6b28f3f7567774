"""Measures training steps, their parts, beam search and loss curves with TensorFlow. Writes each result when known.

python -m dev.accelerator.under_tensorflow RESULTS.json SECONDS ARGUMENTS

ARGUMENTS is a JSON object with `ready_file` and `batches_file`, both optional, see `under_jax`.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dev.accelerator import tensorflow_profile, tensorflow_steps
from dev.accelerator.batches import random_batch
from dev.accelerator.cases import BFLOAT16, CURVES, FLOAT32, Case, plan_for, scaled
from dev.accelerator.results import Results
from dev.accelerator.stored_batches import StoredBatches, read_batches
from dev.accelerator.tensorflow_steps import (
    StepRequest,
    find_machine,
    measured,
    measured_in_processes,
    time_steps,
)

# The number of virtual devices of a machine without GPUs.
_VIRTUAL = 2
# A set, its vocabulary and the number of steps for comparing devices.
_COMPARED, _COMPARED_VOCABULARY, _COMPARED_STEPS = "transformer_tiny", 500, 10
# A process starts and traces in about this time.
_SECONDS_OF_STARTING = 20.0


class Measurement:
    """Takes the measurements in the plan until the deadline of the results, most valuable first.

    Args:
      results: where to write them.
      wait_for: a file that must exist before steps are timed. Until then, another process uses the device.
    """

    def __init__(self, results: Results, wait_for: Path | None = None) -> None:
        self._results, self._wait_for, self._figures = results, wait_for, results.figures
        self._machine = measured(find_machine, _VIRTUAL)
        self._plan = plan_for(self._machine.gpus > 0)
        self._on_one = np.zeros(0)  # the weights that `_compare` found on one device
        self._figures["machine"] = {"devices": self._machine.names, **self._machine.versions}

    def run(self, batches: StoredBatches | None) -> None:
        """Takes all measurements; `batches` are for the loss curves."""
        plan, machine = self._plan, self._machine
        rates = self._figures.setdefault("products", {})
        for size in plan.products:
            self._note("products", lambda size=size: rates.update(measured(tensorflow_steps.products, size)))
        while self._wait_for and not self._wait_for.exists() and self._results.has_time():
            time.sleep(0.1)
        # The chunk size applies to steps under JAX only.
        for case in (case for case in plan.cases if case.max_chunk is None):
            self._time(case.name, StepRequest(case, plan.vocab_size))
        uses_xla = machine.gpus > 0
        self._note("search", lambda: self._set("search", self._search(uses_xla)))
        for case in plan.profiled:
            self._note("profiles", lambda case=case: self._profile(case), case.name)
        if batches is not None:
            self._figures["shapes"] = batches.shapes
            for precision in (FLOAT32, BFLOAT16):
                self._note("curves", lambda precision=precision: self._curve(batches, precision), precision)
        for case in plan.profiled if uses_xla else ():
            self._time(f"{case.name}, without XLA", StepRequest(case, plan.vocab_size, xla_compile=False))
        if machine.count > 1:
            self._several()

    def _several(self) -> None:
        """Measures several devices: in one process, and each in a process of its own."""
        plan, machine = self._plan, self._machine
        for case in scaled(plan.scaling, machine.count):
            self._time(case.name, StepRequest(case, plan.vocab_size))
        case = plan.scaling._replace(devices=machine.count)
        name = f"{plan.scaling.name}, {machine.count} processes"
        self._time(name, StepRequest(case, plan.vocab_size, in_processes=True))
        if parameters := self._figures["steps"].get(case.name, {}).get("parameters"):
            self._note("all-reduce", lambda: self._set("all_reduce", self._all_reduce(4 * parameters)))
        for devices, what in ((1, "device"), (machine.count, "devices"), (machine.count, "processes")):
            self._note("equality", lambda how=(devices, what): self._compare(*how), f"{devices} {what}")

    def _note(self, what: str, measure: Callable[[], object], *where: str) -> None:
        """Runs a measurement if there is time left, and records its error if it fails."""
        if not self._results.has_time(_SECONDS_OF_STARTING):
            self._results.note_no_time(what, *where)
            return
        with self._results.noted(what, *where):
            measure()

    def _set(self, name: str, value: Any) -> None:  # noqa: ANN401
        self._figures[name] = value

    def _time(self, name: str, request: StepRequest) -> None:
        steps = self._figures.setdefault("steps", {})
        self._note("steps", lambda: steps.update({name: time_steps(request, self._machine)}), name)

    def _search(self, xla_compile: bool) -> dict[str, float]:
        return measured(tensorflow_steps.search_rate, self._plan.search, self._plan.vocab_size, xla_compile)

    def _profile(self, case: Case) -> None:
        found = tensorflow_profile.profile(case, self._plan.vocab_size, self._machine)
        self._figures.setdefault("profiles", {})[case.name] = found

    def _curve(self, batches: StoredBatches, precision: str) -> None:
        number = self._plan.curves_steps
        sides = {side: getattr(batches, side)[:number] for side in ("inputs", "targets")}
        changes = CURVES | {"precision": precision}
        about = (self._plan.curves_set, changes, sides, batches.vocab_size, self._machine, 1)
        self._figures.setdefault("curves", {})[precision] = measured(tensorflow_steps.losses, *about)[0]

    def _all_reduce(self, num_bytes: int) -> dict[str, float]:
        rate = measured(tensorflow_steps.all_reduce_rate, num_bytes, self._machine)
        return {"bytes": num_bytes, "bytes_per_second": rate}

    def _compare(self, devices: int, what: str) -> None:
        """Compares the weights after some steps with those on one device, which must be found first.

        Args:
          devices: number of devices.
          what: "processes" if each of them has a process of its own.
        """
        made = [random_batch(1_000, _COMPARED_VOCABULARY, 8, seed) for seed in range(_COMPARED_STEPS)]
        sides = {side: np.stack([batch[side] for batch in made]) for side in ("inputs", "targets")}
        about = (_COMPARED, {"precision": FLOAT32}, sides, _COMPARED_VOCABULARY, self._machine, devices)
        if what == "processes":
            weights = measured_in_processes(self._machine, tensorflow_steps.losses, *about, True)[1]
        else:
            weights = measured(tensorflow_steps.losses, *about)[1]
        if devices == 1:
            self._on_one = weights
        else:
            difference = float(np.abs(weights - self._on_one).max())
            self._figures.setdefault("equality", {})[f"{devices} {what}"] = difference


def main(file: str, seconds: str, arguments: str) -> None:
    """Takes the measurements in the plan for this machine; see the module and `Measurement`."""
    deadline, given = time.monotonic() + float(seconds), json.loads(arguments)
    ready = Path(given["ready_file"]) if "ready_file" in given else None
    batches = read_batches(Path(given["batches_file"])) if "batches_file" in given else None
    Measurement(Results(Path(file), {}, deadline), ready).run(batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
