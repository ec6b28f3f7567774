"""The cost of training: estimates of operations, time and disk space before it, and measurements after it."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from t2t_lite.cost import cost_of
from t2t_lite.data.manifest import FILENAME, manifest_of_file
from t2t_lite.data.problem import SIDES
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.reproduce.runner import Spent
from t2t_lite.reproduce.runs import Run, Scale
from t2t_lite.runs.evaluations import read_evaluations, read_reports
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.system.tensorflow import import_tensorflow

# Default utilisation: the speed of training relative to a large matrix product, for estimates without a finished run.
# Measured on CPUs with models of hidden size 128 to 512.
_USUAL_UTILISATION = 0.35
_BYTES_PER_WEIGHT = 12  # float32, with Adam's two moments


@dataclasses.dataclass(frozen=True)
class Cost:
    parameters: int  # number of parameters of the model
    flops: float  # operations of the whole training, forward and backward passes
    seconds: float  # time of the whole training on this machine; 0 if it is done
    disk_bytes: float  # disk space of the checkpoints


def costs(runs: Sequence[Run], scale: Scale, times: Mapping[str, Spent]) -> dict[str, Cost]:
    """Returns the cost of each run, by name. Imports TensorFlow.

    `scale` has the sentence length and the vocabulary size. `times` of finished runs determine the speed of the others.
    Without any, the speed is measured.
    """
    import_tensorflow()
    from t2t_lite.training.devices import matmul_gflops

    sizes: dict[str, tuple[int, float]] = {}
    for run in runs:
        if run.row not in sizes:
            cost = cost_of(run.hparams, scale.vocab_size)
            step = sum(cost.training_flops(scale.mean_length, scale.mean_length).values())
            sizes[run.row] = sum(cost.parameter_parts().values()), step * run.hparams.train_steps
    trained = {run.name for run in runs if run.is_trained()}
    done = [(sizes[run.row][1], times[run.name].seconds) for run in runs if run.name in trained & times.keys()]
    seconds = sum(taken for _, taken in done)
    rate = (
        sum(flops for flops, _ in done) / seconds
        if seconds > 0
        else matmul_gflops(repeats=3) * 1e9 * _USUAL_UTILISATION
    )
    return {
        run.name: Cost(
            parameters=(size := sizes[run.row])[0],
            flops=size[1],
            seconds=0.0 if run.name in trained else size[1] / rate,
            disk_bytes=size[0] * _BYTES_PER_WEIGHT * run.hparams.average_checkpoints,
        )
        for run in runs
    }


def training_figures(run: RunDir, data_dir: Path) -> dict[str, float]:
    """Returns the known measurements of a training run.

    They are "parameters" in millions, "steps", "tokens" (target tokens per step), "step_seconds", "flops" (counted
    operations of all steps, which needs the sentence lengths in `data_dir`), "dev_perplexity" (of the last evaluated
    checkpoint) and "dev_step", its step.
    """
    sizes = [open_vocabulary(path).size for path in (run.vocabulary, run.inputs_vocabulary)]
    cost = cost_of(run.hparams, *sizes)
    figures = {"parameters": sum(cost.parameter_parts().values()) / 1e6}
    reports = read_reports(run.path)
    if rates := reports.get("steps_per_second"):
        figures["steps"] = max(reports["step"])
        tokens = [each / rate for each, rate in zip(reports["target_tokens_per_second"], rates)]
        figures["tokens"] = statistics.median(tokens)
        rates = rates[1:] or rates  # the first one includes building the graph
        figures["step_seconds"] = 1 / statistics.median(rates)
        about = data_dir / FILENAME.format(run.problem.data_name)
        if about.exists():
            manifest = manifest_of_file(about)
            lengths = run.problem.in_direction([manifest.mean_length("train", side) for side in SIDES])
            figures["flops"] = figures["steps"] * sum(cost.training_flops(*lengths).values())
    if evaluations := read_evaluations(run.path):
        figures["dev_step"] = max(evaluations)
        figures["dev_perplexity"] = evaluations[max(evaluations)]["perplexity"]
    return figures
