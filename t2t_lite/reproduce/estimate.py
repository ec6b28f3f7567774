"""What a run will cost: operations, time and disk, before it begins."""

import dataclasses
from collections.abc import Mapping, Sequence

from t2t_lite.reproduce.runner import Spent
from t2t_lite.reproduce.runs import Run
from t2t_lite.reproduce.scales import Scale

# Share of the speed of a large matrix product that trainings reach, where no finished run tells: measured on CPUs with
# models of hidden 128 to 512.
_USUAL_UTILISATION = 0.35
_BYTES_PER_WEIGHT = 12  # float32, with Adam's two moments


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of one run.

    Args:
      parameters: of the model.
      flops: operations of the whole training, forward and backward.
      seconds: time that the training will take on this machine; 0 if it is done.
      disk_bytes: of the checkpoints.
    """

    parameters: int
    flops: float
    seconds: float
    disk_bytes: float


def costs(runs: Sequence[Run], scale: Scale, times: Mapping[str, Spent]) -> dict[str, Cost]:
    """Returns the cost of each run, by its name. It imports TensorFlow.

    Args:
      runs: the runs.
      scale: their scale, for the sizes of sentences and vocabulary.
      times: what finished trainings took, from which the speed of the others follows; {}: it is measured.
    """
    from t2t_lite.quiet import import_tensorflow

    import_tensorflow()
    from t2t_lite.models.parameters import symbolic_model
    from t2t_lite.training.cost import training_step_flops

    sizes: dict[str, tuple[int, float]] = {}
    for run in runs:
        if run.row not in sizes:
            model = symbolic_model(run.hparams, scale.vocab_size)
            step = sum(training_step_flops(model, scale.mean_length, scale.mean_length).values())
            sizes[run.row] = sum(model.parameter_parts().values()), step * run.hparams.train_steps
    trained = {run.name for run in runs if run.is_trained()}
    done = [(sizes[run.row][1], times[run.name].seconds) for run in runs if run.name in trained & times.keys()]
    seconds = sum(taken for _, taken in done)
    rate = sum(flops for flops, _ in done) / seconds if seconds > 0 else _usual_rate()
    return {
        run.name: Cost(
            parameters=(size := sizes[run.row])[0],
            flops=size[1],
            seconds=0.0 if run.name in trained else size[1] / rate,
            disk_bytes=size[0] * _BYTES_PER_WEIGHT * run.hparams.average_checkpoints,
        )
        for run in runs
    }


def _usual_rate() -> float:
    from t2t_lite.training.monitoring.peak_flops import matmul_gflops

    return matmul_gflops(repeats=3) * 1e9 * _USUAL_UTILISATION
