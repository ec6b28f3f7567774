"""A training run on its devices: what is set up before the first step, the loop, and what follows the last step."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.generation.shards import LONGER
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.pipeline import has_pair, reading_shards
from t2t_lite.display import Display
from t2t_lite.errors import UserError
from t2t_lite.files import one_line
from t2t_lite.runs.checkpoints import TrainingState
from t2t_lite.runs.run_dir import RunDir, record_alignment_layer, stored_setting
from t2t_lite.training import devices
from t2t_lite.training.cluster import workers_of_environment
from t2t_lite.training.evaluation import best_alignment_layer
from t2t_lite.training.loop import Training, TrainingLoop
from t2t_lite.training.micro_batching import bound_micro_batches
from t2t_lite.training.options import Callback, Callbacks, TrainOptions
from t2t_lite.training.policy import LAST_STEP, Ending, StopSignals
from t2t_lite.training.reports import Progress, start_record
from t2t_lite.training.step import build_model
from t2t_lite.training.warm_start import warm_start


def train(
    hparams: HParams,
    prepare: Callable[[HParams], RunDir],
    output_dir: Path,
    data_dir: Path,
    manifest: Manifest,
    options: TrainOptions,
    callbacks: Iterable[Callback] = (),
    display: Display | None = None,
) -> Ending:
    """Trains up to step `hparams.train_steps`, from the last checkpoint if there is one.

    Args:
      hparams: the settings; precision=auto and batch_by=auto stand for what suits the devices, see `resolve_auto`.
      prepare: returns the run directory for the final settings, see `prepare_run_dir`.
      output_dir: the path of the run directory.
      data_dir: the folder with the problem's data.
      manifest: that of the data.
      options: the options of the run.
      callbacks: follow the run.
      display: where to show the progress; None: the logger.
    """
    display = display or Display()
    worker = workers_of_environment()[1]
    is_chief = worker == 0
    free_bytes = devices.device_memory(options.virtual_devices)
    strategy = devices.make_strategy(
        options.strategy, options.num_gpus, options.virtual_devices, options.xla_compile, options.worker_timeout
    )
    with _lost_workers_reported(strategy):
        is_new = not (output_dir / "run.json").exists()
        are_auto = [name for name in ("precision", "batch_by") if getattr(hparams, name) == "auto"]
        stored = {} if is_new else {name: str(stored_setting(output_dir, name)) for name in are_auto}
        hparams, compiles, why = devices.resolve_auto(strategy, hparams, options.xla_compile, stored)
        if is_chief and why:
            display.say(why)
        options = dataclasses.replace(options, free_bytes=free_bytes, xla_compile=compiles)
        training = set_up(prepare(hparams), data_dir, manifest, strategy, options)
        first_step, last_step = training.state.step, hparams.train_steps
        with (
            Progress(output_dir, first_step, last_step, display if is_chief else None, worker) as progress,
            reading_shards(training.run_dir.problem.data_name, data_dir),
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
            if is_chief and not ending.signal:
                try:
                    if (layer := best_alignment_layer(training.run_dir, data_dir, training.model)) is not None:
                        record_alignment_layer(output_dir, layer)
                except Exception as error:  # a plug-in's model may raise anything, and the run is complete without it
                    progress.say(f"the layer for word alignments was not measured: {one_line(str(error))}")
            return ending


def set_up(
    run_dir: RunDir, data_dir: Path, manifest: Manifest, strategy: tf.distribute.Strategy, options: TrainOptions
) -> Training:
    """Builds the model, and loads the last checkpoint or else the warm start, if any.

    Raises UserError if no training pair is within `max_length`, a longest pair does not fit into memory, or a
    checkpoint cannot be used.
    """
    hparams, problem = run_dir.hparams, run_dir.problem
    pairs, lengths = manifest.splits["train"]["examples"], manifest.splits["train"]["lengths"]
    longest = max(int(length) for histogram in lengths.values() for length in histogram)
    if LONGER not in lengths and longest > hparams.max_length:  # the manifest does not tell
        with reading_shards(problem.data_name, data_dir):
            if not has_pair(problem, data_dir, hparams.max_length):
                raise UserError(
                    f"no training pair of '{manifest.problem}' has at most max_length={hparams.max_length} tokens on "
                    f"both sides; raise the limit: `hparams=max_length={longest}` keeps all pairs"
                )
    inputs_size, targets_size = manifest.vocab_sizes(problem)
    micro_batches = bound_micro_batches(hparams, manifest, inputs_size, targets_size, strategy, options)
    model, optimizer = build_model(hparams, targets_size, strategy, options.random_seed, inputs_size)
    longer = sum(
        number for length, number in lengths.get(LONGER, lengths["targets"]).items() if int(length) > hparams.max_length
    )
    at_least = "" if LONGER in lengths else "at least "
    left_out = f" ({at_least}{longer:,} longer than max_length={hparams.max_length} left out)" if longer else ""
    notes = [
        *hparams.warnings(),
        f"{manifest.problem}: {pairs:,} training pairs{left_out}, {model.count_params():,} parameters, "
        f"{devices.describe_devices(strategy)}, {hparams.precision}",
    ]
    if devices.has_workers(strategy):
        notes.append(f"workers: {devices.describe_workers()}")
    if slow := devices.slow_precision(hparams.precision):
        notes.append(slow)
    state = TrainingState(model, optimizer)
    if restored := state.restore(run_dir.path, notes.append):
        notes.append(f"resuming from {restored}")
    elif options.warm_start_from:
        notes += warm_start(model, Path(options.warm_start_from), run_dir.vocabulary, run_dir.inputs_vocabulary)
        optimizer.restart_averages()
    if len(set(devices.all_gather(strategy, state.step))) > 1:
        raise UserError(f"the workers see different checkpoints in {run_dir.path}; let all workers share `output_dir`")
    is_chief = workers_of_environment()[1] == 0
    return Training(run_dir, data_dir, manifest, strategy, options, model, state, micro_batches, is_chief, notes)


@contextlib.contextmanager
def _lost_workers_reported(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns errors inside the block that are caused by the loss of another worker into a UserError."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        if not devices.has_workers(strategy):
            raise
        raise UserError(
            "another worker ended or cannot be reached; restart all workers to resume from the last checkpoint"
        ) from error
