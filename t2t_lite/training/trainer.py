"""Trains a model: sets up the run, then loops until the last step or until something stops the run."""

import contextlib
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import t2t_lite
from t2t_lite.data.pipeline import batches, reading_shards
from t2t_lite.data.problem import SIDES
from t2t_lite.data.vocab import EOS_ID
from t2t_lite.decoding.alignment import association
from t2t_lite.display import Display
from t2t_lite.errors import UserError
from t2t_lite.files import one_line
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.runs.run_dir import RunDir, record_alignment_layer
from t2t_lite.training.callbacks import Callback, Callbacks
from t2t_lite.training.evaluation.interruption import StopSignals
from t2t_lite.training.loop import LAST_STEP, Ending, TrainingLoop
from t2t_lite.training.monitoring.progress import Progress
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.precision import measured_gflops
from t2t_lite.training.setup import Training, set_up
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
    """Trains up to step `hparams.train_steps`, from the last checkpoint if there is one.

    `run_dir` is from `prepare_run_dir`. Without a `display`, the logger shows the progress.
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
        ending = loop.run()
        if training.is_chief and not ending.signal:
            try:
                if (layer := best_alignment_layer(training)) is not None:
                    record_alignment_layer(run_dir.path, layer)
            except Exception as error:  # a plug-in's model may raise anything, and the run is complete without it
                progress.say(f"the layer for word alignments was not measured: {one_line(str(error))}")
        return ending


_ALIGNED_TOKENS, _ALIGNED_BATCHES = 2000, 3  # target tokens per batch, and batches, to choose the layer by


def best_alignment_layer(training: Training) -> int | None:
    """Returns the decoder layer whose cross-attention aligns words best, measured on some dev pairs.

    In this layer, the source token to which an output token attends most tells most about it, see `association`. None
    if there is nothing to choose from, because fewer than two layers have cross-attention weights or dev is empty.
    """
    model, hparams = training.model, training.run_dir.hparams
    num_layers = model.attention_layers().get("cross", 0)
    if num_layers < 2:
        return None
    pairs = batches(
        training.run_dir.problem,
        training.data_dir,
        "dev",
        batch_tokens=_ALIGNED_TOKENS,
        max_length=hparams.max_length,
        seed=1,
    )
    links: list[list[tuple[int, int]]] = [[] for _ in range(num_layers)]
    for batch in pairs.take(_ALIGNED_BATCHES):
        sources, outputs = (batch[side].numpy() for side in SIDES)
        row, place = np.nonzero(outputs > EOS_ID)
        for layer in range(num_layers):
            weights = tf.reduce_mean(model.attention(batch["inputs"], batch["targets"], "cross", layer), 1).numpy()
            attended = np.where(sources[:, np.newaxis] > EOS_ID, weights, -1).argmax(2)
            links[layer] += zip(sources[row, attended[row, place]].tolist(), outputs[row, place].tolist())
    usual = model.alignment_layer
    if not links[usual]:
        return None
    return max(range(num_layers), key=lambda layer: (association(links[layer]), layer == usual))


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
    """Returns what the log records when a run starts.

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
