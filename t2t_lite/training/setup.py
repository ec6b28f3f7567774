"""Sets up a training run: checks, the model on its devices, the micro-batch limit, the initial or restored state."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.cost import choose_max_tokens
from t2t_lite.data.generation.records import LONGER
from t2t_lite.data.manifest import Manifest, check_data
from t2t_lite.data.pipeline import has_pair, reading_shards
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import make_model
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.runs.training_state import TrainingState
from t2t_lite.training.checks import check_training
from t2t_lite.training.optimizers.base import Optimizer
from t2t_lite.training.optimizers.registered import make_optimizer
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.precision import slow_precision
from t2t_lite.training.step.micro_batching import MicroBatches
from t2t_lite.training.strategy import (
    all_gather,
    describe_devices,
    describe_workers,
    has_workers,
    num_parallel_micro_batches,
)
from t2t_lite.training.tf_config import workers_of_environment
from t2t_lite.training.warm_start import warm_start


@dataclasses.dataclass(frozen=True)
class Training:
    run_dir: RunDir  # the settings, the problem and the vocabularies
    data_dir: Path  # where the problem's data is
    manifest: Manifest  # the data's manifest
    strategy: tf.distribute.Strategy  # the devices
    options: TrainOptions  # the options of the run
    model: Seq2SeqModel  # the built model, on the devices
    state: TrainingState  # the training state, new or restored
    micro_batches: MicroBatches  # the limit on the size of micro-batches
    is_chief: bool  # whether this worker writes checkpoints and logs
    notes: list[str]  # lines to print before the first step


def set_up(run_dir: RunDir, data_dir: Path, strategy: tf.distribute.Strategy, options: TrainOptions) -> Training:
    """Checks settings and data, builds the model, and loads the last checkpoint or else the warm start, if any."""
    hparams, problem = run_dir.hparams, run_dir.problem
    manifest = check_data(data_dir, problem)
    check_training(problem, hparams, manifest, data_dir)
    _check_any_pair(run_dir, data_dir, manifest)
    inputs_size, targets_size = vocab_sizes(run_dir, manifest)
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


def vocab_sizes(run_dir: RunDir, manifest: Manifest) -> tuple[int, int]:
    """Returns the vocabulary sizes of inputs and targets, in the direction of the run's problem."""
    inputs, targets = run_dir.problem.in_direction(manifest.vocabularies)
    return inputs["size"], targets["size"]


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


def build_model(
    hparams: HParams,
    vocab_size: int,
    strategy: tf.distribute.Strategy,
    random_seed: int,
    inputs_vocab_size: int | None = None,
) -> tuple[Seq2SeqModel, Optimizer]:
    """Returns a built model with seeded weights, and its optimizer, on the devices of `strategy`.

    Without `inputs_vocab_size`, both sides share one vocabulary.
    """
    with strategy.scope():
        model = make_model(hparams, vocab_size, inputs_vocab_size, random_seed)
        optimizer = make_optimizer(model.trainable_variables, hparams)
    return model, optimizer


def bound_micro_batches(
    hparams: HParams,
    manifest: Manifest,
    inputs_size: int,
    targets_size: int,
    strategy: tf.distribute.Strategy,
    options: TrainOptions,
) -> MicroBatches:
    """Returns the micro-batch limit: the requested number of positions, or the number that fits in the free memory.

    The limit is at most 1.25 times a device's share of a batch (2.5 times with batch_by=shapes), because few batches
    have more padding, and every run first tests the largest micro-batch. All workers use the smallest of their limits.
    A CPU computes several micro-batches at once, unless the longest sentence does not fit into memory several times.
    """
    share = -(-hparams.batch_tokens // strategy.num_replicas_in_sync)
    # With batch_by=shapes, the two sides of a batch may differ more in length, because each shape sets both lengths.
    largest = (10 if hparams.batch_by == "shapes" else 5) * share // 4 + 1
    most, length = options.max_tokens_per_replica, manifest.longest("train", hparams.max_length)
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    is_static = is_tpu or (bool(options.xla_compile) and hparams.batch_by != "shapes")
    num_parallel = 1 if is_tpu or options.xla_compile else num_parallel_micro_batches(strategy)
    if most is None and options.free_bytes is not None:
        most = choose_max_tokens(hparams, targets_size, inputs_size, options.free_bytes, length, num_parallel)
    most = int(all_gather(strategy, min(most or largest, largest)).min())
    if most < num_parallel * length:
        num_parallel = 1
    # Half a share per micro-batch limits the padding in the last one.
    return MicroBatches(most, static_tokens=-(-share // 2) if is_static else 0, num_parallel=num_parallel)


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
