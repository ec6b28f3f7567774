"""A training run: checks, devices, model, the loop, and the last steps."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.generation.records import LONGER
from t2t_lite.data.manifest import Manifest, check_data
from t2t_lite.data.pipeline import batches, has_pair, reading_shards
from t2t_lite.data.problem import SIDES
from t2t_lite.data.vocab import EOS_ID
from t2t_lite.decoding.alignment import association
from t2t_lite.display import Display
from t2t_lite.errors import UserError
from t2t_lite.files import one_line
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.runs.checkpoints import TrainingState
from t2t_lite.runs.run_dir import RunDir, record_alignment_layer
from t2t_lite.training.callbacks import Callback, Callbacks
from t2t_lite.training.checks import check_training
from t2t_lite.training.cluster import workers_of_environment
from t2t_lite.training.devices import (
    all_gather,
    describe_devices,
    describe_workers,
    has_workers,
    slow_precision,
)
from t2t_lite.training.loop import Training, TrainingLoop
from t2t_lite.training.micro_batching import bound_micro_batches
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.policy import LAST_STEP, Ending, StopSignals
from t2t_lite.training.reports import Progress, start_record
from t2t_lite.training.step import build_model
from t2t_lite.training.warm_start import warm_start


def set_up(run_dir: RunDir, data_dir: Path, strategy: tf.distribute.Strategy, options: TrainOptions) -> Training:
    """Checks settings and data, builds the model, and loads the last checkpoint or else the warm start, if any."""
    hparams, problem = run_dir.hparams, run_dir.problem
    manifest = check_data(data_dir, problem)
    check_training(problem, hparams, manifest, data_dir)
    _check_any_pair(run_dir, data_dir, manifest)
    inputs_size, targets_size = manifest.vocab_sizes(problem)
    micro_batches = bound_micro_batches(hparams, manifest, inputs_size, targets_size, strategy, options)
    model, optimizer = build_model(hparams, targets_size, strategy, options.random_seed, inputs_size)
    state = TrainingState(model, optimizer)
    notes = [*hparams.warnings(), _summary(model, strategy, manifest, hparams)]
    if has_workers(strategy):
        notes.append(f"workers: {describe_workers()}")
    if slow := slow_precision(hparams.precision):
        notes.append(slow)
    _initialize(state, model, run_dir, options, notes.append)
    if len(set(all_gather(strategy, state.step))) > 1:
        raise UserError(f"the workers see different checkpoints in {run_dir.path}; let all workers share `output_dir`")
    is_chief = workers_of_environment()[1] == 0
    return Training(run_dir, data_dir, manifest, strategy, options, model, state, micro_batches, is_chief, notes)


def _check_any_pair(run_dir: RunDir, data_dir: Path, manifest: Manifest) -> None:
    """Raises UserError if no training pair is within `max_length`; reads the data if the manifest does not tell."""
    limit, lengths = run_dir.hparams.max_length, manifest.splits["train"]["lengths"]
    longest = max(int(length) for histogram in lengths.values() for length in histogram)
    if LONGER in lengths or longest <= limit:
        return
    with reading_shards(run_dir.problem.data_name, data_dir):
        if not has_pair(run_dir.problem, data_dir, limit):
            raise UserError(
                f"no training pair of '{manifest.problem}' has at most max_length={limit} tokens on both sides; raise "
                f"the limit: `hparams=max_length={longest}` keeps all pairs"
            )


def _initialize(
    state: TrainingState, model: Seq2SeqModel, run_dir: RunDir, options: TrainOptions, say: Callable[[str], None]
) -> None:
    """Loads the last checkpoint or else, for a warm start, the weights of another run."""
    restored = state.restore(run_dir.path, say)
    if restored:
        say(f"resuming from {restored}")
    elif options.warm_start_from:
        for line in warm_start(model, Path(options.warm_start_from), run_dir.vocabulary, run_dir.inputs_vocabulary):
            say(line)
        state.optimizer.restart_averages()


def _summary(model: Seq2SeqModel, strategy: tf.distribute.Strategy, manifest: Manifest, hparams: HParams) -> str:
    pairs, lengths = manifest.splits["train"]["examples"], manifest.splits["train"]["lengths"]
    longer = sum(
        number for length, number in lengths.get(LONGER, lengths["targets"]).items() if int(length) > hparams.max_length
    )
    at_least = "" if LONGER in lengths else "at least "
    left_out = f" ({at_least}{longer:,} longer than max_length={hparams.max_length} left out)" if longer else ""
    return (
        f"{manifest.problem}: {pairs:,} training pairs{left_out}, {model.count_params():,} parameters, "
        f"{describe_devices(strategy)}, {hparams.precision}"
    )


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
        if first_step >= last_step and not loop.policy.misses_evaluation(first_step):
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
