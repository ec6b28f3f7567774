"""Finds the largest batches under JAX. This is a process of its own, because memory that JAX frees stays fragmented.

KERAS_BACKEND=jax python -m dev.accelerator.largest_batch RESULTS.json SECONDS

It reads the results of `under_jax` and adds to them.
"""

import json
import sys
import time
from pathlib import Path

import jax

from dev.accelerator import jax_machine
from dev.accelerator.cases import Case, fitting_tokens, plan_for
from dev.accelerator.jax_steps import MeasuredSteps
from dev.accelerator.results import Results
from t2t_lite.plugins import load_all

# The shares of a device's memory that a batch may need: the first one with which a step runs counts.
_SHARES = (0.95, 0.85, 0.7)


def main(file: str, seconds: str) -> None:
    """Finds the largest batch of each set in the plan, in bfloat16."""
    deadline = time.monotonic() + float(seconds)
    load_all()
    results = Results(Path(file), json.loads(Path(file).read_text()), deadline)
    plan = plan_for(jax.default_backend() != "cpu")
    limit = plan.memory_bytes or jax_machine.memory_limit()
    if limit is None:
        return
    steps = results.figures["steps"]
    for hparams_set in dict.fromkeys(case.hparams_set for case in plan.cases):
        standard = [case for case in plan.cases if case == Case(hparams_set, case.target_tokens)]
        points = [(case.target_tokens, steps.get(case.name, {}).get("memory_bytes")) for case in standard]
        points = [(tokens, memory) for tokens, memory in points if memory]
        if not results.has_time():
            results.note_no_time("largest batch", hparams_set)
            continue
        with results.noted("largest batch", hparams_set):
            for share in _SHARES if len(points) > 1 else ():
                case = Case(hparams_set, fitting_tokens(points, share * limit))
                MeasuredSteps(plan, results, lambda: None).time([case])
                if "step_seconds" in steps[case.name]:
                    found = {"target_tokens": case.target_tokens, "memory_bytes": steps[case.name]["memory_bytes"]}
                    results.figures.setdefault("largest_batches", {})[hparams_set] = found | {"limit_bytes": limit}
                    break


if __name__ == "__main__":
    main(*sys.argv[1:])
