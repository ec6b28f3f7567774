"""t2t-lite-benchmark --training: measures the speed, memory and utilisation of training, by precision."""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.benchmark.process import in_a_process
from t2t_lite.bin import cli
from t2t_lite.config import HParams
from t2t_lite.data.manifest import check_data
from t2t_lite.data.problem import get_problem
from t2t_lite.files import check_outputs, write_text
from t2t_lite.registry import HPARAMS, MODELS
from t2t_lite.system.tensorflow import import_tensorflow
from t2t_lite.training.options import TrainOptions

if TYPE_CHECKING:
    from t2t_lite.benchmark.training import TrainingCost, TrainingData


def show(arguments: argparse.Namespace) -> None:
    cli.load_plugins(arguments)
    hparams = HPARAMS[arguments.hparams_set]().override(arguments.hparams)
    MODELS.check(hparams.model)
    from t2t_lite.benchmark import training

    if arguments.problem:
        problem, data_dir = get_problem(arguments.problem), Path(arguments.data_dir)
        data = training.TrainingData(check_data(data_dir, problem), problem, data_dir)
    else:
        sizes = (arguments.vocab_size, int(arguments.source_length), int(arguments.target_length))
        data = training.random_data(*sizes)
    data.check(hparams)
    if arguments.json_file is not None:
        of_data = Path(arguments.data_dir).iterdir() if arguments.data_dir else ()
        # Check before measuring, which takes minutes.
        check_outputs({"--json_file": Path(arguments.json_file)}, {str(file): file for file in of_data})
    changes = f" with {arguments.hparams}" if arguments.hparams else ""
    steps = f"{arguments.warmup_steps} + {arguments.num_steps} steps of {hparams.batch_tokens:,} target tokens"
    source, target = data.mean_lengths()
    what = data.problem.name if data.problem else data.manifest.problem
    lengths = f"sentences of {source:.3g} and {target:.3g} tokens, vocabulary {data.vocab_sizes()[1]:,}"
    print(f"{arguments.hparams_set}{changes}: {steps}\n{what}: {lengths}\n", flush=True)
    costs = [
        in_a_process(_measure, hparams.replace(precision=precision), data, arguments)
        for precision in arguments.precision or [hparams.precision]
    ]
    _print_table(costs)
    machine, parameters = costs[0].machine, costs[0].parameters
    speeds = ", ".join(f"{cost.machine.matmul_gflops:,.0f}" for cost in costs)
    threads = f"{machine.threads} thread{'s' if machine.threads > 1 else ''}"
    print(f"\n{parameters:,} parameters on {', '.join(machine.devices)}; {threads};")
    print(f"{speeds} GFLOP/s in a 2048x2048 float32 product; TensorFlow {machine.tensorflow}, Keras {machine.keras}")
    if arguments.json_file is not None:
        flags = ("hparams_set", "strategy", "max_tokens_per_replica", "warmup_steps")
        content = {flag: getattr(arguments, flag) for flag in flags}
        content["hparams"] = {
            name: value for name, value in dataclasses.asdict(hparams).items() if name not in ("precision", "batch_by")
        }
        content |= {"problem": data.problem.name if data.problem else None}
        content |= {"source_length": source, "target_length": target, "vocab_size": data.vocab_sizes()[1]}
        content["rows"] = [
            cost.figures()
            | {"timed_steps": [step._asdict() for step in cost.steps], "machine": dataclasses.asdict(cost.machine)}
            for cost in costs
        ]
        write_text(Path(arguments.json_file), json.dumps(content, indent=2) + "\n")


def _measure(hparams: HParams, data: "TrainingData", arguments: argparse.Namespace) -> "TrainingCost":
    """Returns the `TrainingCost` of one precision. Called in a separate process."""
    cli.load_plugins(arguments)
    import_tensorflow()
    from t2t_lite.benchmark import training

    devices = cli.given(arguments, TrainOptions)
    devices.pop("decode_hparams")  # a flag of --decoding
    return training.measure(hparams, data, TrainOptions(**devices), arguments.num_steps, arguments.warmup_steps)


# The title and format of each column, by metric. Columns per device appear only if there are several devices.
COLUMNS = {
    "precision": ("precision", "{}"),
    "target_tokens_per_second_median": ("target\ntokens/s", "{:,.0f}"),
    "target_tokens_per_second_best": ("\nbest", "{:,.0f}"),
    "padded_target_tokens_per_second_median": ("\npadded", "{:,.0f}"),
    "target_tokens_per_second_per_device_median": ("per device\ntokens/s", "{:,.0f}"),
    "padded_target_tokens_per_second_per_device_median": ("\npadded", "{:,.0f}"),
    "step_seconds_median": ("seconds\nper step", "{:.3g}"),
    "step_seconds_best": ("\nbest", "{:.3g}"),
    "input_tokens_per_second": ("input\ntokens/s", "{:,.0f}"),
    "input_times_training": ("times\ntraining", "{:,.1f}"),
    "utilisation_by_6_parameters": ("utilisation\n6 x param.", "{:.1%}"),
    "utilisation_by_counted_flops": ("\ncounted", "{:.1%}"),
    "peak_flops_per_second": ("peak\nTFLOP/s", "{:.3g}"),
    "peak_memory_bytes": ("peak\nMiB", "{:,.0f}"),
}
UNITS = {"peak_flops_per_second": 1e12, "peak_memory_bytes": 2**20}


def _print_table(costs: "Sequence[TrainingCost]") -> None:
    rows = [cost.figures() for cost in costs]
    shown = {
        name: form
        for name, (_, form) in COLUMNS.items()
        if rows[0][name] is not None and ("per_device" not in name or costs[0].replicas > 1)
    }
    table = cli.table(*(COLUMNS[name][0] for name in shown))
    for row in rows:
        table.add_row(
            *(form.format(row[name] / UNITS[name] if name in UNITS else row[name]) for name, form in shown.items())
        )
    cli.print_table(table)
    print("Tokens exclude padding, except in padded columns. Rates are for the median step, except in best columns.")
    if skipped := sum(cost.skipped_steps for cost in costs):
        print(f"In {skipped} steps, gradients were not finite.")
