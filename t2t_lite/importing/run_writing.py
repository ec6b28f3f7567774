"""Writes an imported model as a run directory."""

from pathlib import Path
from typing import NamedTuple

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.files import written_folder
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.runs.checkpoints import TrainingState
from t2t_lite.runs.run_dir import prepare_run_dir, record_alignment_layer
from t2t_lite.training.optimizers import make_optimizer


class Imported(NamedTuple):
    path: Path  # the run directory
    checkpoint: Path  # its checkpoint, without suffix
    num_parameters: int
    problem: str


def check_new(output_dir: Path) -> None:
    if output_dir.exists() and (not output_dir.is_dir() or any(output_dir.iterdir())):
        raise UserError(f"`output_dir={output_dir}` already exists; pass a new folder")


def write_run(
    output_dir: Path,
    model: Seq2SeqModel,
    step: int,
    problem: Problem,
    targets: Path,
    inputs: Path,
    alignment_layer: int | None = None,
) -> Imported:
    """Writes a run directory with one checkpoint, which has a new optimizer. The directory is written atomically.

    `step` is the number of steps for which the model was trained; without an `alignment_layer`, none is recorded.
    """
    optimizer = make_optimizer(model.trainable_variables, model.hparams)
    optimizer.iterations.assign(step)
    with written_folder(output_dir, "`output_dir`") as partial:
        prepare_run_dir(partial, model.hparams, problem, targets, inputs_vocabulary=inputs)
        if alignment_layer is not None:
            record_alignment_layer(partial, alignment_layer)
        name = TrainingState(model, optimizer).save(partial, 1).name
    return Imported(output_dir, output_dir / name, model.count_params(), problem.name)
