"""The training loop: runs steps and, between them, reports, saves checkpoints and evaluates.

`TrainingLoop.run` asks the `Policy` when to save, evaluate and stop. Asynchronous devices, such as GPUs, compute the
steps of a call while the host reads the results of the previous ones.
"""

import dataclasses
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.cost import cost_of
from t2t_lite.data.batching import HostShare
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.pipeline import epochs
from t2t_lite.data.problem import SIDES
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.runs.checkpoints import BackgroundWriter, TrainingState
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.schedules import learning_rate
from t2t_lite.training.calls import STEPS_PER_CALL, CallLength, MadeStep, Requests, StartedSteps, StepCalls
from t2t_lite.training.cluster import workers_of_environment
from t2t_lite.training.devices import all_gather, has_gpus, has_workers, peak_flops
from t2t_lite.training.evaluation import Evaluator
from t2t_lite.training.micro_batching import MicroBatches, distribute_batches, first_replica
from t2t_lite.training.options import Callbacks, TrainOptions
from t2t_lite.training.policy import (
    EARLY_STOPPING,
    LAST_STEP,
    Ending,
    Interrupted,
    Interruption,
    Policy,
    StopSignals,
    Wishes,
)
from t2t_lite.training.reports import Profiler, Progress, Throughput
from t2t_lite.training.step import TrainStep

# A run ends after this many consecutive steps with non-finite loss or gradients. With loss scaling, more are allowed,
# because each of them halves the scale, which may need several such steps to reach a usable value.
MAX_SKIPPED_IN_ROW = 5
MAX_SKIPPED_IN_ROW_WITH_LOSS_SCALE = 20


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


class TrainingLoop:
    """Trains from the current step to the last one, unless early stopping, a callback or a signal ends it sooner."""

    def __init__(self, training: Training, progress: Progress, callbacks: Callbacks, signals: StopSignals) -> None:
        self._training, self._progress, self._callbacks, self._signals = training, progress, callbacks, signals
        self._path, self._hparams, self._options = training.run_dir.path, training.run_dir.hparams, training.options
        self._strategy, self._state, self._is_chief = training.strategy, training.state, training.is_chief
        self._step = self._first_step = training.state.step
        strategy, options, last_step = training.strategy, training.options, self._hparams.train_steps
        data = self._batches_from(int(training.state.epoch), int(training.state.position))
        # All workers read figures after the same steps, and make as many steps per call. A CPU has computed a step when
        # its call returns, so its figures can be read without waiting.
        self._is_asynchronous = bool(all_gather(strategy, float(has_gpus(strategy))).any())
        self._reads_every_step = bool(all_gather(strategy, float(callbacks.follow_steps)).any())
        self.policy = Policy(
            self._path, options, last_step, strategy, training.is_chief, signals, callbacks, progress.say
        )
        self._log_steps = int(all_gather(strategy, options.log_step_count_steps)[0])
        most = options.steps_per_call or (STEPS_PER_CALL if has_gpus(strategy) else 1)
        most = 1 if self._reads_every_step else int(all_gather(strategy, most).min())
        self._train_step = TrainStep(
            strategy,
            training.model,
            training.state.optimizer,
            data.element_spec,
            options.random_seed,
            bool(options.xla_compile),
            training.micro_batches.num_parallel,
            options.allreduce_precision,
            in_graph=most > 1,
        )
        self._calls = StepCalls(self._train_step, data, is_several=most > 1)
        self._length = CallLength(most, (self.policy.checkpoint_steps, self._log_steps), last_step)
        workers, self._worker = workers_of_environment() if has_workers(strategy) else ([], 0)
        # The seconds that each worker waited for its last batch, as shared with the others; [] without others.
        self._waits = np.zeros(len(workers))
        self._writer = BackgroundWriter()
        self._finished = 0.0  # when the results of the last call were read
        self._evaluator = None  # created only at the first evaluation, to not delay the first step
        lengths = [training.manifest.mean_length("train", side) for side in SIDES]
        cost = cost_of(self._hparams, training.model.vocab_size, training.model.inputs_vocab_size)
        flops = sum(cost.training_flops(*training.run_dir.problem.in_direction(lengths)).values())
        known_peak = options.peak_tflops and peak_flops(strategy, self._hparams.precision, options.peak_tflops)
        measure = None if known_peak else lambda: peak_flops(strategy, self._hparams.precision)
        per_token = flops / self._hparams.batch_tokens
        self._throughput = Throughput(strategy.num_replicas_in_sync, per_token, known_peak, measure)

    def _batches_from(self, epoch: int, position: int) -> tf.distribute.DistributedDataset:
        training, hparams = self._training, self._hparams

        def data_of_host(host: HostShare) -> tf.data.Dataset:
            return epochs(
                training.run_dir.problem,
                training.data_dir,
                batch_tokens=hparams.batch_tokens,
                batch_by=hparams.batch_by,
                max_length=hparams.max_length,
                bpe_dropout=hparams.bpe_dropout,
                pair_concatenation=hparams.pair_concatenation,
                seed=self._options.random_seed,
                first_epoch=epoch,
                skip=position,
                host=host,
            )

        return distribute_batches(self._strategy, data_of_host, training.micro_batches)

    def run(self) -> Ending:
        try:
            ending = self._run()
            self._take_saved(wait=True)
            return ending
        except Exception:
            self._writer.wait()  # not after KeyboardInterrupt, which ends the run at once
            raise

    def _run(self) -> Ending:
        policy, last_step = self.policy, self._hparams.train_steps
        if policy.misses_evaluation(self._step):  # because the process was stopped
            ending = self._evaluate()
        else:
            ending = Ending(self._step, EARLY_STOPPING) if policy.is_without_gain() else None
        if ending or self._step >= last_step:
            return ending or Ending(self._step, LAST_STEP)
        self._check_memory()
        profiler = Profiler(self._path / "train" if self._options.profile and self._is_chief else None)
        policy.restart()
        self._throughput.restart()
        unread = None  # the steps of the last call, if their results are not read yet
        while True:
            wishes = policy.wishes()
            number = 1 if policy.is_decided_here(wishes) else self._length.steps_after(self._step)
            requests = Requests(float(wishes.stop), float(wishes.save), self._length.wanted, self._waits)
            started = self._calls.start(self._step, number, requests)
            self._step += number
            agreed = self._finish(unread) if unread else Wishes(False, False)
            is_due = policy.saves_at(self._step)
            is_read_now = is_due or self._reads_at_once(wishes) or any(agreed)
            unread = None if is_read_now else started
            if is_read_now:
                agreed = Wishes(*map(max, agreed, self._finish(started)))
            self._take_saved(wait=False)
            profiler.after_steps(number)
            stop, checkpoint = agreed.stop or policy.is_stopped_here(self._step), agreed.save or is_due
            if checkpoint:
                policy.announce_evaluation(self._step)
            if stop or checkpoint:
                self._save()
                policy.restart()
            if stop:
                return self._stop()
            if checkpoint and (ending := self._evaluate()):
                return ending
            if self._step >= last_step:
                return Ending(self._step, LAST_STEP)

    def _check_memory(self) -> None:
        """Runs the largest possible micro-batches, so that a lack of memory shows at once rather than after hours."""
        longest = self._training.manifest.longest("train", self._hparams.max_length)
        rows, length = self._training.micro_batches.largest_shape(longest)
        ids = np.ones([self._training.micro_batches.num_parallel, rows, length], "int32")
        whole = {"inputs": ids, "targets": ids, "tokens": np.float32(ids.size)}
        whole |= {name: np.int64(0) for name in ("epoch", "position", "first_row")}
        batch = {
            name: self._strategy.experimental_distribute_values_from_function(lambda _, part=part: tf.constant(part))
            for name, part in whole.items()
        }
        try:
            self._train_step.check_memory(batch)
        except tf.errors.ResourceExhaustedError as error:
            raise UserError(
                f"out of memory while computing {ids.size // length} pairs of {length} tokens at once; set "
                f"`max_tokens_per_replica` below {ids.size}, or use a smaller max_length"
            ) from error

    def _reads_at_once(self, wishes: Wishes) -> bool:
        """Returns whether the steps just started must end before the next call.

        The first step is reported at once, and the second one determines how many steps the next call makes.
        """
        alone = 2 if self._length.most > 1 else 1
        is_early = self._step <= self._first_step + alone
        return is_early or self._reads_every_step or not self._is_asynchronous or self.policy.is_decided_here(wishes)

    def _finish(self, started: StartedSteps) -> Wishes:
        """Waits for steps and counts them. Returns what any worker wants."""
        steps = started.read()
        # This call may have begun while the previous one was still being computed; that time does not count.
        now, begun = time.monotonic(), max(started.begun, self._finished)
        if started.last > self._first_step + 1:  # the first step includes tracing
            self._length.measured(len(steps) / max(now - begun, 1e-9))
        self._finished = now
        for made in steps:
            self._count(made)
        self._last = made
        replicas = self._strategy.num_replicas_in_sync
        if self._waits.size and steps[0].number > self._first_step + 1:  # the first batch also waits for the start
            # All replicas of a worker send its share.
            self._waits[self._worker] = made.waited * len(self._waits) / replicas
        self._length.agree(made.requests.call_length / replicas)
        return Wishes(made.requests.stop > 0, made.requests.save > 0)

    def _count(self, made: MadeStep) -> None:
        """Counts a step and reports if due. Raises UserError if too many consecutive steps were skipped."""
        step, report = made.number, made.report
        is_first, is_last = step == self._first_step + 1, step >= self._hparams.train_steps
        is_reported = is_first or is_last or step % self._log_steps == 0
        epoch, rate = made.epoch + 1.0, 0.0
        if is_reported or self._callbacks.follow_steps:
            rate = float(learning_rate(step, self._hparams))
        self._throughput.add(report, made.waited, made.requests.waits)
        self._progress.after_step(step)
        if self._callbacks.follow_steps:
            figures = {
                "loss": report.sums.smoothed / report.sums.tokens,
                "nll_loss": report.sums.plain / report.sums.tokens,
                "target_tokens": report.sums.tokens,
                "gradient_norm": report.gradient_norm,
                "learning_rate": rate,
                "epoch": epoch,
                "skipped": float(not report.finite),
            }
            self._callbacks.on_step(step, figures)
        if is_reported:
            self._progress.report(step, self._throughput.figures() | {"epoch": epoch, "learning_rate": rate})
        if is_first:  # not earlier, to not delay the first step
            self._throughput.measure_peak()
        has_scale = self._state.optimizer.loss_scale is not None
        most = MAX_SKIPPED_IN_ROW_WITH_LOSS_SCALE if has_scale else MAX_SKIPPED_IN_ROW
        if self._throughput.skipped_in_row < most:
            return
        kept = self._path / f"not-finite-{step}.npz"
        if self._is_chief:
            self._progress.say(f"step {step}: reading its batch again to save it in {kept}")
            batch = next(iter(self._batches_from(made.epoch, made.position)))
            inputs, targets = (np.array(first_replica(batch[name])) for name in SIDES)
            np.savez(kept, inputs=inputs, targets=targets)
        raise UserError(
            f"{most} steps in a row, up to step {step}, were skipped because the loss or gradients were not finite; "
            f"the last batch is saved in {kept}. Start another run from an earlier checkpoint "
            f"(`warm_start_from`) with a smaller learning_rate, clip_norm=1 or precision=float32"
        )

    def _save(self) -> None:
        self._state.epoch.assign(self._last.epoch)
        self._state.position.assign(self._last.position + 1)
        if not self._is_chief:
            return
        self._take_saved(wait=True)  # the previous checkpoint
        keep_max, snapshot, best = self._options.keep_checkpoint_max, self._state.snapshot(), self.policy.best_steps()
        self._writer.start(self._step, lambda: snapshot.write(self._path, keep_max, keep=best))
        self._take_saved(wait=self._callbacks.follow_checkpoints)

    def _take_saved(self, wait: bool) -> None:
        """Reports the checkpoint that a thread writes, once it is written; `wait`: waits for that.

        The run waits before it writes the next checkpoint, before it records an evaluation, at its end and, if a
        callback follows checkpoints, at once. Raises UserError if the checkpoint could not be written.
        """
        if written := self._writer.take(wait):
            step, path = written
            self._progress.say(f"step {step}: saved {path}")
            self._callbacks.on_checkpoint(step, path)

    def _evaluate(self) -> Ending | None:
        """Evaluates if the run includes evaluation. Returns the ending if the run ends now, else None."""
        training, policy = self._training, self.policy
        if policy.evaluates:
            self._evaluator = self._evaluator or Evaluator(
                training.run_dir,
                training.data_dir,
                training.strategy,
                training.model,
                self._options,
                training.micro_batches,
                interruption=Interruption(training.strategy, self._signals),
                is_chief=training.is_chief,
            )
            try:
                with self._progress.evaluation(self._step) as show, self._state.optimizer.averages_in_place():
                    figures = self._evaluator(show)
            except Interrupted:
                return self._stop("during the evaluation of")
            if self._is_chief:
                self._take_saved(wait=True)
                policy.after_evaluation(self._step, figures)
            self._progress.after_evaluation(self._step, figures, self._evaluator.samples)
            self._callbacks.on_evaluation(self._step, figures)
        if self._throughput.peak:
            self._throughput.measure_peak()
        self._throughput.restart()
        if policy.is_without_gain():
            return Ending(self._step, EARLY_STOPPING)
        return self._stop() if policy.is_stopped(self._step) else None

    def _stop(self, where: str = "after") -> Ending:
        self._take_saved(wait=True)  # the last step must be saved, at least in the background
        return self.policy.stopped(self._step, where)
