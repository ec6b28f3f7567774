"""The training loop: batches in, checkpoints out."""

import dataclasses
import time
from pathlib import Path

import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.manifest import check_data, check_lengths
from t2t_lite.data.pipeline import batches, epochs, reading_shards
from t2t_lite.registry import MODELS
from t2t_lite.run_dir import RunDir
from t2t_lite.training.checkpoints import TrainingState
from t2t_lite.training.evaluation import evaluate
from t2t_lite.training.optimizer import make_optimizer
from t2t_lite.training.progress import Progress
from t2t_lite.training.schedule import learning_rate
from t2t_lite.training.steps import make_eval_step, make_train_step
from t2t_lite.training.strategy import first_replica, share_out


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """How to run a training; nothing here changes what is learned but `random_seed`.

    Args:
      save_checkpoints_secs: seconds between two checkpoints, each with an evaluation.
      save_checkpoints_steps: steps between two checkpoints; if above 0, seconds do not count.
      keep_checkpoint_max: how many checkpoints are kept.
      log_step_count_steps: steps between two progress reports.
      random_seed: fixes initial weights, order of data and dropout.
    """

    save_checkpoints_secs: int = 600
    save_checkpoints_steps: int = 0
    keep_checkpoint_max: int = 20
    log_step_count_steps: int = 100
    random_seed: int = 1


def train(
    run_dir: RunDir, data_dir: Path, strategy: tf.distribute.Strategy, options: TrainOptions = TrainOptions()
) -> None:
    """Trains until `hparams.train_steps` steps have been made, going on from the last checkpoint if there is one.

    Args:
      run_dir: what `prepare_run_dir` made: settings, problem and vocabularies.
      data_dir: where the problem's data is.
      strategy: the devices.
      options: see `TrainOptions`.

    Raises:
      UserError: on unusable data or checkpoints, or settings that do not suit the data.
    """
    hparams, problem = run_dir.hparams, run_dir.problem
    manifest = check_data(data_dir, problem)
    problem.check_hparams(hparams)
    check_lengths(manifest, hparams)
    inputs, targets = problem.in_direction(manifest.vocabularies)
    model, optimizer = build(hparams, targets["size"], strategy, options.random_seed, inputs["size"])
    state = TrainingState(model, optimizer)
    restored = state.restore(run_dir.path)
    with (
        Progress(run_dir.path, state.step, hparams.train_steps, options.log_step_count_steps) as progress,
        reading_shards(problem, data_dir),
    ):
        progress.say(_opening_line(model, strategy, manifest, hparams))
        if restored:
            progress.say(f"going on from {restored}")
        if state.step >= hparams.train_steps:
            progress.say(f"already trained for {state.step} steps; raise --train_steps to train on")
            return
        # All pairs of the dev split count, however long they are.
        dev = share_out(strategy, batches(problem, data_dir, "dev", batch_tokens=hparams.batch_tokens))
        eval_step = make_eval_step(strategy, model, dev.element_spec)
        data = share_out(strategy, _global_batches(run_dir, data_dir, state, options.random_seed))
        train_step = make_train_step(strategy, model, optimizer, data.element_spec, options.random_seed)
        due = _Due(options)
        for batch in data:
            sums = train_step(batch)
            step = state.step
            rate = float(learning_rate(step, hparams))
            progress.after_step(step, float(sums.smoothed), float(sums.tokens), rate)
            is_last = step >= hparams.train_steps
            if is_last or due.at(step):
                state.epoch.assign(first_replica(batch["epoch"]))
                state.position.assign(first_replica(batch["position"]) + 1)
                progress.say(f"step {step}: saved {state.save(run_dir.path, options.keep_checkpoint_max)}")
                progress.after_evaluation(step, evaluate(eval_step, dev))
            if is_last:
                return


def build(
    hparams: HParams,
    vocab_size: int,
    strategy: tf.distribute.Strategy,
    random_seed: int,
    inputs_vocab_size: int | None = None,
):
    """Returns a built model with seeded weights and its built optimizer, on the devices of `strategy`.

    Args:
      hparams: the settings.
      vocab_size: number of target pieces.
      strategy: the devices.
      random_seed: fixes the initial weights.
      inputs_vocab_size: number of source pieces; None if both sides share a vocabulary.
    """
    import keras

    with strategy.scope():
        keras.utils.set_random_seed(random_seed)
        model = MODELS[hparams.model](hparams, vocab_size, inputs_vocab_size)
        model.build()
        optimizer = make_optimizer(hparams)
        optimizer.build(model.trainable_variables)
    return model, optimizer


def _global_batches(run_dir: RunDir, data_dir: Path, state: TrainingState, random_seed: int) -> tf.data.Dataset:
    """Returns the batches that the run has not used yet."""
    return epochs(
        run_dir.problem,
        data_dir,
        batch_tokens=run_dir.hparams.batch_tokens,
        max_length=run_dir.hparams.max_length,
        seed=random_seed,
        first_epoch=int(state.epoch),
        skip=int(state.position),
    )


class _Due:
    """Says when a checkpoint is due: by steps, or by seconds since the last one."""

    def __init__(self, options: TrainOptions):
        self._options = options
        self._last = time.monotonic()

    def at(self, step: int) -> bool:
        if self._options.save_checkpoints_steps:
            return step % self._options.save_checkpoints_steps == 0
        if time.monotonic() - self._last < self._options.save_checkpoints_secs:
            return False
        self._last = time.monotonic()
        return True


def _opening_line(model, strategy, manifest, hparams) -> str:
    pairs = manifest.splits["train"]["examples"]
    longer = sum(
        number
        for length, number in manifest.splits["train"]["lengths"]["targets"].items()
        if int(length) > hparams.max_length
    )
    left_out = f" (at least {longer} longer than max_length={hparams.max_length} left out)" if longer else ""
    replicas = strategy.num_replicas_in_sync
    return (
        f"{manifest.problem}: {pairs:,} training pairs{left_out}, {model.count_params():,} parameters, "
        f"{replicas} device{'s' if replicas > 1 else ''}, {hparams.precision}"
    )
