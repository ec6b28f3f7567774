"""The training loop: steps, and between them reports, checkpoints and evaluations."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.checkpoints.training_state import TrainingState
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.pipeline import epochs
from t2t_lite.errors import UserError
from t2t_lite.run_dir import RunDir
from t2t_lite.training.cost import training_step_flops
from t2t_lite.training.evaluation.evaluator import Evaluator
from t2t_lite.training.evaluation.model_selection import (
    add_evaluation,
    best_steps,
    evaluations_without_gain,
    read_evaluations,
)
from t2t_lite.training.monitoring.peak_flops import peak_flops
from t2t_lite.training.monitoring.progress import Progress
from t2t_lite.training.monitoring.throughput import Meter
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.schedule import learning_rate
from t2t_lite.training.signal_handling import Interruption
from t2t_lite.training.step.micro_batching import MicroBatches, first_replica, share_out
from t2t_lite.training.step.train_step import StepReport, TrainStep
from t2t_lite.training.strategy import of_all_workers

# Steps whose loss or gradients are not finite, one after the other, that end a run. A loss scale that is halved at each
# of them needs more to find its place.
MOST_SKIPPED_IN_ROW = 5
MOST_SKIPPED_IN_ROW_WITH_LOSS_SCALE = 20
# Of a run, counted from where it goes on: the steps that --profile traces.
PROFILED = range(5, 10)


class Loop:
    """One training, from where its state is to its last step.

    Args:
      run_dir, data_dir, manifest: settings, problem and its data.
      strategy: the devices.
      model, state: what `train` has built and perhaps restored.
      micro: how large a micro-batch may be.
      options: see `TrainOptions`.
      progress: where to say and record what happens.
      is_chief: whether this worker is the one that writes.
    """

    def __init__(
        self,
        run_dir: RunDir,
        data_dir: Path,
        manifest: Manifest,
        strategy,
        model,
        state: TrainingState,
        micro: MicroBatches,
        options: TrainOptions,
        progress: Progress,
        is_chief: bool,
    ):
        self._path, self._hparams, self._options = run_dir.path, run_dir.hparams, options
        self._strategy, self._state, self._progress, self._is_chief = strategy, state, progress, is_chief
        self._step = self._first_step = state.step
        self._data = share_out(
            strategy,
            epochs(
                run_dir.problem,
                data_dir,
                batch_tokens=self._hparams.batch_tokens,
                max_length=self._hparams.max_length,
                seed=options.random_seed,
                first_epoch=int(state.epoch),
                skip=int(state.position),
            ),
            micro,
        )
        self._train_step = TrainStep(
            strategy, model, state.optimizer, self._data.element_spec, options.random_seed, options.xla_compile
        )
        self._micro = micro
        self._longest = manifest.longest("train", self._hparams.max_length)
        self._make_evaluator = lambda: Evaluator(
            run_dir, data_dir, strategy, model, micro, options.eval_decode and is_chief, options.decode_hparams
        )
        self._evaluator = None  # made when it is first needed: whoever starts a training waits for its first step
        lengths = [manifest.mean_length("train", side) for side in ("inputs", "targets")]
        lengths = run_dir.problem.in_direction(lengths)
        flops = sum(training_step_flops(self._hparams, model.vocab_size, *lengths).values())
        given = options.peak_tflops and options.peak_tflops * 1e12 * strategy.num_replicas_in_sync
        measure = None if given else lambda: peak_flops(strategy, self._hparams.precision)
        self._meter = Meter(strategy.num_replicas_in_sync, flops / self._hparams.batch_tokens, given, measure)

    def run(self, interruption: Interruption) -> int:
        """Trains. Returns the number of the signal that ended it early, else 0."""
        if self._is_over_before_it_begins():
            return 0
        self._rehearse()
        due = _Due(self._options, self._hparams.train_steps)
        profile = _Profile(self._path / "train" if self._options.profile and self._is_chief else None)
        self._meter.restart()
        for batch, waited in _timed(self._data):
            wishes = (float(interruption.number > 0), float(self._is_chief and due.at(self._step + 1)))
            report = self._train_step(batch, wishes)
            self._step += 1
            self._watch(report, waited, batch)
            profile.after_step()
            told_to_stop, is_due = report.requests > 0
            if told_to_stop or is_due:
                self._save(batch)
                due.restart()
            if told_to_stop:
                return self._stop(interruption.number)
            if is_due and self._evaluate():
                return 0
            if self._step >= self._hparams.train_steps:
                return 0
        raise AssertionError("the training data has no end")

    def _rehearse(self) -> None:
        """Runs the largest micro-batch there can be, so that a lack of memory shows now and not after hours."""
        rows, length = self._micro.largest(self._longest)
        ids = np.ones([1, rows, length], "int32")
        whole = {"inputs": ids, "targets": ids, "tokens": np.float32(ids.size)}
        whole |= {name: np.int64(0) for name in ("epoch", "position", "first_row")}
        batch = {
            name: self._strategy.experimental_distribute_values_from_function(lambda _, part=part: tf.constant(part))
            for name, part in whole.items()
        }
        try:
            self._train_step.rehearse(batch)
        except tf.errors.ResourceExhaustedError as error:
            raise UserError(
                f"out of memory with {rows} pairs of {length} pieces, the largest micro-batch; use a "
                f"--max_tokens_per_replica below {rows * length}, or a smaller max_length"
            ) from error

    def _watch(self, report: StepReport, waited: float, batch) -> None:
        """Counts, reports when it is time, and ends a run that learns nothing any more."""
        self._meter.add(report, waited)
        self._progress.after_step(self._step)
        is_first, is_last = self._step == self._first_step + 1, self._step >= self._hparams.train_steps
        if is_first or is_last or self._step % self._options.log_step_count_steps == 0:
            self._report(batch)
        if is_first:  # for the same reason measured only now
            self._meter.measure_peak()
        has_scale = self._state.optimizer.loss_scale is not None
        most = MOST_SKIPPED_IN_ROW_WITH_LOSS_SCALE if has_scale else MOST_SKIPPED_IN_ROW
        if self._meter.skipped_in_row < most:
            return
        kept = self._path / f"not-finite-{self._step}.npz"
        if self._is_chief:
            np.savez(kept, **{name: np.array(first_replica(batch[name])) for name in ("inputs", "targets")})
        raise UserError(
            f"{most} steps in a row up to step {self._step} had a loss or gradients that are not finite, and were "
            f"skipped; the last batch is in {kept}. Go on from an earlier checkpoint with a smaller "
            f"learning_rate_constant, or in float32"
        )

    def _report(self, batch) -> None:
        figures = self._meter.figures()
        figures["epoch"] = float(first_replica(batch["epoch"])) + 1
        figures["learning_rate"] = float(learning_rate(self._step, self._hparams))
        self._progress.report(self._step, figures)

    def _save(self, batch) -> None:
        self._state.epoch.assign(first_replica(batch["epoch"]))
        self._state.position.assign(first_replica(batch["position"]) + 1)
        if not self._is_chief:
            return
        options = self._options
        best = best_steps(read_evaluations(self._path), options.eval_metric, options.keep_best_n)
        path = self._state.save(self._path, options.keep_checkpoint_max, keep=best)
        self._progress.say(f"step {self._step}: saved {path}")
        if self._state.optimizer.averages:
            self._state.save_average(self._path)

    def _evaluate(self) -> bool:
        """Evaluates if that is this process's part, and says whether the run is over for want of gain."""
        if self._options.schedule == "train_and_evaluate":
            self._evaluator = self._evaluator or self._make_evaluator()
            with self._state.optimizer.averages_in_place():
                figures = self._evaluator()
            if self._is_chief:
                add_evaluation(self._path, self._step, figures)
            self._progress.after_evaluation(self._step, figures, self._evaluator.samples)
        if self._meter.peak:
            self._meter.measure_peak()
        self._meter.restart()
        return self._is_without_gain()

    def _is_without_gain(self) -> bool:
        patience, metric = self._options.early_stopping_patience, self._options.eval_metric
        if not patience:
            return False
        evaluations = read_evaluations(self._path) if self._is_chief else {}
        without_gain = evaluations_without_gain(evaluations, metric)
        # The chief decides; the others have nothing to add.
        if not of_all_workers(self._strategy, float(without_gain >= patience)).any():
            return False
        best = ", ".join(f"ckpt-{step}" for step in best_steps(evaluations, metric, 1))
        self._progress.say(
            f"{without_gain} evaluations without a better {metric} than that of {best}: stopped early; raise "
            f"--early_stopping_patience to train on"
        )
        return True

    def _is_over_before_it_begins(self) -> bool:
        """Makes up for an evaluation that a kill prevented, and says whether the run had been stopped early."""
        every = self._options.save_checkpoints_steps
        if self._step and every and self._step % every == 0:
            is_missing = self._is_chief and self._step not in read_evaluations(self._path)
            if (
                self._options.schedule == "train_and_evaluate"
                and of_all_workers(self._strategy, float(is_missing)).any()
            ):
                return self._evaluate()
        return self._is_without_gain()

    def _stop(self, number: int) -> int:
        name = signal.Signals(number).name if number else "a signal to another worker"
        self._progress.say(
            f"stopped by {name} after step {self._step}, which is saved; the same command goes on from there"
        )
        return number or signal.SIGTERM


class _Due:
    """Says when a checkpoint is due: at the last step; by steps, or by seconds since the last one."""

    def __init__(self, options: TrainOptions, last_step: int):
        self._options = options
        self._last_step = last_step
        self.restart()

    def at(self, step: int) -> bool:
        if step >= self._last_step:
            return True
        if self._options.save_checkpoints_steps:
            return step % self._options.save_checkpoints_steps == 0
        return time.monotonic() - self._since >= self._options.save_checkpoints_secs

    def restart(self) -> None:
        self._since = time.monotonic()


class _Profile:
    """Writes a TensorBoard trace of the steps `PROFILED` into a directory; None: of none."""

    def __init__(self, directory: Path | None):
        self._directory = directory
        self._steps = 0

    def after_step(self) -> None:
        self._steps += 1
        if self._directory is None:
            return
        if self._steps == PROFILED.start:
            tf.profiler.experimental.start(str(self._directory))
        elif self._steps == PROFILED.stop:
            tf.profiler.experimental.stop()


def _timed(data) -> Iterator[tuple]:
    """Yields (batch, seconds waited for it)."""
    iterator = iter(data)
    while True:
        start = time.monotonic()
        batch = next(iterator, None)
        if batch is None:
            return
        yield batch, time.monotonic() - start
