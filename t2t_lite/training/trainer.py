"""Trains a model: sets up the run, then loops until the last step or until something stops the run."""

import contextlib
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

import keras
import tensorflow as tf

import t2t_lite
from t2t_lite.data.pipeline import reading_shards
from t2t_lite.display import Display
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.run_dir import RunDir
from t2t_lite.training.callbacks import Callback, Callbacks
from t2t_lite.training.evaluation.interruption import StopSignals
from t2t_lite.training.loop import LAST_STEP, Ending, TrainingLoop
from t2t_lite.training.monitoring.progress import Progress
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.precision import measured_gflops
from t2t_lite.training.setup import set_up
from t2t_lite.training.strategy import has_workers, kinds_of_devices
from t2t_lite.training.tf_config import workers_of_environment


def train(
    run_dir: RunDir,
    data_dir: Path,
    strategy: tf.distribute.Strategy,
    options: TrainOptions,
    callbacks: Iterable[Callback] = (),
    display: Display | None = None,
) -> Ending:
    """Trains up to step `hparams.train_steps`, starting from the last checkpoint if there is one.

    Args:
      run_dir: the return value of `prepare_run_dir`: settings, problem and vocabularies.
      data_dir: where the problem's data is.
      strategy: the devices.
      options: see `TrainOptions`.
      callbacks: objects that follow the run and can stop it.
      display: shows the progress; None: the logger shows it.

    Returns:
      the last step, and why the run ended.

    Raises:
      UserError: if data or checkpoints are unusable, the settings do not fit the data, disk or memory is full, or loss
        or gradients are no longer finite.
    """
    display = display or Display()
    with _lost_workers_reported(strategy):
        training = set_up(run_dir, data_dir, strategy, options)
    first_step, last_step = training.state.step, run_dir.hparams.train_steps
    with (
        _lost_workers_reported(strategy),
        Progress(
            run_dir.path, first_step, last_step, display if training.is_chief else None, workers_of_environment()[1]
        ) as progress,
        reading_shards(run_dir.problem.data_name, data_dir),
        StopSignals(display.stopping) as signals,
    ):
        for note in training.notes:
            progress.say(note)
        loop = TrainingLoop(training, progress, Callbacks(callbacks), signals)
        if first_step >= last_step and not loop.misses_evaluation():
            progress.say(f"already trained for {first_step} steps; raise `train_steps` to continue")
            return Ending(first_step, LAST_STEP)
        progress.started(start_record(training.model, strategy))
        return loop.run()


@contextlib.contextmanager
def _lost_workers_reported(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns errors inside the block that are caused by the loss of another worker into a UserError."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        if not has_workers(strategy):
            raise
        raise UserError(
            "another worker ended or cannot be reached; restart all workers to resume from the last checkpoint"
        ) from error


FORMAT = 1


def start_record(model: Seq2SeqModel, strategy: tf.distribute.Strategy) -> dict[str, object]:
    """Returns what the log records when a run starts: devices, versions and the number of parameters.

    `replicas` counts the devices of all workers, `devices` names the kinds of devices on this worker, and `cores`
    counts the logical processors of this machine. `matmul_gflops` has the measured speeds of matrix products by
    precision; it is empty if no measurement was needed.
    """
    return {
        "format": FORMAT,
        "t2t_lite": t2t_lite.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "python": platform.python_version(),
        "devices": kinds_of_devices(strategy),
        "replicas": strategy.num_replicas_in_sync,
        "workers": len(workers_of_environment()[0]) if has_workers(strategy) else 1,
        "cores": os.cpu_count(),
        "parameters": model.count_params(),
        "matmul_gflops": measured_gflops(),
    }
