"""The training loop: runs steps and, between them, reports, saves checkpoints and evaluates."""

import dataclasses
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.cost import cost_of
from t2t_lite.data.batching import HostShare
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.pipeline import epochs
from t2t_lite.data.problem import SIDES
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.runs.checkpoint_files import remove_old
from t2t_lite.runs.checkpoints import BackgroundWriter, TrainingState
from t2t_lite.runs.evaluations import (
    add_evaluation,
    announce_evaluation,
    best_steps,
    end_announcement,
    evaluations_without_gain,
    is_evaluation_due,
    read_evaluations,
)
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.schedules import learning_rate
from t2t_lite.training.callbacks import Callbacks
from t2t_lite.training.calls import STEPS_PER_CALL, CallLength, MadeStep, StartedSteps, StepCalls
from t2t_lite.training.cluster import workers_of_environment
from t2t_lite.training.devices import all_gather, has_gpus, has_workers, peak_flops
from t2t_lite.training.evaluation import Evaluator
from t2t_lite.training.micro_batching import MicroBatches, distribute_batches, first_replica
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.policy import CheckpointSchedule, Interrupted, Interruption, StopSignals
from t2t_lite.training.reports import Profiler, Progress, Throughput
from t2t_lite.training.step import TrainStep

# A run ends after this many consecutive steps with non-finite loss or gradients. With loss scaling, more are allowed,
# because each of them halves the scale, which may need several such steps to reach a usable value.
MAX_SKIPPED_IN_ROW = 5
MAX_SKIPPED_IN_ROW_WITH_LOSS_SCALE = 20
# The reasons why a run ends.
LAST_STEP, EARLY_STOPPING, SIGNAL, CALLBACK = "last step", "early stopping", "signal", "callback"


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


class Ending(NamedTuple):
    step: int  # the last completed step
    reason: str  # one of the four above
    signal: int = 0  # the number of the signal, if a signal was the reason


class TrainingLoop:
    """Trains from the current step to the last one, unless early stopping, a callback or a signal ends it sooner."""

    def __init__(self, training: Training, progress: Progress, callbacks: Callbacks, signals: StopSignals) -> None:
        self._training, self._progress, self._callbacks = training, progress, callbacks
        self._signals = signals
        self._path, self._hparams, self._options = training.run_dir.path, training.run_dir.hparams, training.options
        self._strategy, self._state, self._is_chief = training.strategy, training.state, training.is_chief
        self._step = self._first_step = training.state.step
        data = self._batches_from(int(training.state.epoch), int(training.state.position))
        most = self._agree_on_reading()
        self._train_step = TrainStep(
            training.strategy,
            training.model,
            training.state.optimizer,
            data.element_spec,
            self._options.random_seed,
            bool(self._options.xla_compile),
            training.micro_batches.num_parallel,
            self._options.allreduce_precision,
            in_graph=most > 1,
        )
        self._calls = StepCalls(self._train_step, data, is_several=most > 1)
        workers, self._worker = workers_of_environment() if has_workers(training.strategy) else ([], 0)
        # The seconds that each worker waited for its last batch, as shared with the others; [] without others.
        self._waits = np.zeros(len(workers))
        self._length = CallLength(most, (self._checkpoint_steps, self._log_steps), self._hparams.train_steps)
        self._writer = BackgroundWriter()
        self._finished = 0.0  # when the results of the last call were read
        self._evaluator = None  # created only at the first evaluation, to not delay the first step
        self._evaluates = self._options.schedule == "train_and_evaluate"
        self._throughput = self._make_throughput()

    def _agree_on_reading(self) -> int:
        """Returns the maximum number of steps per call; all workers read figures after the same steps."""
        options, strategy = self._options, self._strategy
        # A CPU has computed a step when its call returns, so its figures can be read without waiting.
        self._is_asynchronous = bool(all_gather(strategy, float(has_gpus(strategy))).any())
        self._reads_every_step = bool(all_gather(strategy, float(self._callbacks.follow_steps)).any())
        self._checkpoint_steps = int(all_gather(strategy, options.save_checkpoints_steps)[0])
        self._log_steps = int(all_gather(strategy, options.log_step_count_steps)[0])
        most = options.steps_per_call or (STEPS_PER_CALL if has_gpus(strategy) else 1)
        return 1 if self._reads_every_step else int(all_gather(strategy, most).min())

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

    def _make_throughput(self) -> Throughput:
        training, options = self._training, self._options
        lengths = [training.manifest.mean_length("train", side) for side in SIDES]
        lengths = training.run_dir.problem.in_direction(lengths)
        model = training.model
        flops = sum(cost_of(model.hparams, model.vocab_size, model.inputs_vocab_size).training_flops(*lengths).values())
        known_peak = options.peak_tflops and peak_flops(self._strategy, self._hparams.precision, options.peak_tflops)
        measure = None if known_peak else lambda: peak_flops(self._strategy, self._hparams.precision)
        replicas = self._strategy.num_replicas_in_sync
        return Throughput(replicas, flops / self._hparams.batch_tokens, known_peak, measure)

    def run(self) -> Ending:
        try:
            ending = self._run()
            self._report_saved(wait=True)
            return ending
        except Exception:
            self._writer.wait()  # not after KeyboardInterrupt, which ends the run at once
            raise

    def _run(self) -> Ending:
        if ending := self._end_before_it_begins():
            return ending
        self._check_memory()
        seconds, last_step = self._options.save_checkpoints_secs, self._hparams.train_steps
        schedule = CheckpointSchedule(self._checkpoint_steps, seconds, last_step)
        before = None
        profiler = Profiler(self._path / "train" if self._options.profile and self._is_chief else None)
        self._throughput.restart()
        while True:
            wants_to_stop = self._signals.number > 0 or self._callbacks.stop
            requests = (wants_to_stop, self._is_chief and schedule.is_due_by_time())
            number = 1 if self._is_decided_here(requests) else self._length.steps_after(self._step)
            sent = [*map(float, requests), self._length.wanted, *self._waits]
            started = self._calls.start(self._step, number, sent)
            self._step += number
            # Asynchronous devices already compute these steps while the host reads the results of the previous ones.
            agreed = self._finish(before) if before else np.zeros(2, bool)
            checkpoint = schedule.is_due_by_steps(self._step)
            is_read_now = checkpoint or self._reads_at_once(requests) or agreed.any()
            before = None if is_read_now else started
            if is_read_now:
                agreed |= self._finish(started)
            self._report_saved(wait=False)
            profiler.after_steps(number)
            stop, checkpoint = agreed[0] or self._is_stopped_here(), agreed[1] or checkpoint
            if checkpoint and self._evaluates and self._is_chief:
                announce_evaluation(self._path, self._step)
            if stop or checkpoint:
                self._save()
                schedule.restart()
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

    def _reads_at_once(self, requests: Sequence[bool]) -> bool:
        """Returns whether the steps just started must end before the next call.

        The first step is reported at once, and the second one determines how many steps the next call makes.
        """
        alone = 2 if self._length.most > 1 else 1
        is_early = self._step <= self._first_step + alone
        reads_always = self._reads_every_step or not self._is_asynchronous
        return is_early or reads_always or self._is_decided_here(requests)

    def _is_decided_here(self, requests: Sequence[bool]) -> bool:
        """Returns whether there are requests that this process can follow without asking other workers."""
        return any(requests) and not has_workers(self._strategy)

    def _finish(self, started: StartedSteps) -> np.ndarray:
        """Waits for steps and counts them. Returns bool [2]: whether any worker wants to stop, and wants to save."""
        steps = started.read()
        # This call may have begun while the previous one was still being computed; that time does not count.
        now, begun = time.monotonic(), max(started.begun, self._finished)
        if started.last > self._first_step + 1:  # the first step includes tracing
            self._length.measured(len(steps) / max(now - begun, 1e-9))
        self._finished = now
        for made in steps:
            self._count(made)
        self._last = made
        if self._waits.size and steps[0].number > self._first_step + 1:  # the first batch also waits for the start
            # All replicas of a worker send its share.
            self._waits[self._worker] = made.waited * len(self._waits) / self._strategy.num_replicas_in_sync
        wishes, length = made.report.requests[:2], made.report.requests[2]
        self._length.agree(length / self._strategy.num_replicas_in_sync)
        return wishes > 0

    def _count(self, made: MadeStep) -> None:
        """Counts a step and reports if due. Raises UserError if too many consecutive steps were skipped."""
        step = made.number
        self._throughput.add(made.report, made.waited, made.report.requests[3:])
        self._progress.after_step(step)
        if self._callbacks.follow_steps:
            self._callbacks.on_step(step, self._figures_of(made))
        is_first, is_last = step == self._first_step + 1, step >= self._hparams.train_steps
        if is_first or is_last or step % self._log_steps == 0:
            self._report(made)
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

    def _report(self, made: MadeStep) -> None:
        figures = self._throughput.figures()
        figures["epoch"] = made.epoch + 1.0
        figures["learning_rate"] = float(learning_rate(made.number, self._hparams))
        self._progress.report(made.number, figures)

    def _figures_of(self, made: MadeStep) -> dict[str, float]:
        report = made.report
        return {
            "loss": report.sums.smoothed / report.sums.tokens,
            "nll_loss": report.sums.plain / report.sums.tokens,
            "target_tokens": report.sums.tokens,
            "gradient_norm": report.gradient_norm,
            "learning_rate": float(learning_rate(made.number, self._hparams)),
            "epoch": made.epoch + 1.0,
            "skipped": float(not report.finite),
        }

    def _is_stopped_here(self) -> bool:
        """Returns whether a callback stops the run now: before its last step, and with no other workers to ask."""
        is_last = self._step >= self._hparams.train_steps
        return self._callbacks.stop and not is_last and not has_workers(self._strategy)

    def _save(self) -> None:
        self._state.epoch.assign(self._last.epoch)
        self._state.position.assign(self._last.position + 1)
        if not self._is_chief:
            return
        self._report_saved(wait=True)  # the previous checkpoint
        keep_max, snapshot, best = self._options.keep_checkpoint_max, self._state.snapshot(), self._best_steps()
        self._writer.start(self._step, lambda: snapshot.write(self._path, keep_max, keep=best))
        self._report_saved(wait=self._callbacks.follow_checkpoints)

    def _best_steps(self) -> list[int]:
        options = self._options
        return best_steps(read_evaluations(self._path), options.eval_metric, options.keep_best_n)

    def _report_saved(self, wait: bool) -> None:
        """Reports the checkpoint in the background if it is written. Raises UserError if it could not be written."""
        if written := self._writer.take(wait):
            step, path = written
            self._progress.say(f"step {step}: saved {path}")
            self._callbacks.on_checkpoint(step, path)

    def _evaluate(self) -> Ending | None:
        """Evaluates if the run includes evaluation. Returns the ending if the run ends now, else None."""
        if self._evaluates:
            self._evaluator = self._evaluator or self._make_evaluator()
            try:
                with self._progress.evaluation(self._step) as show, self._state.optimizer.averages_in_place():
                    figures = self._evaluator(show)
            except Interrupted:
                return self._stop("during the evaluation of")
            if self._is_chief:
                self._report_saved(wait=True)
                add_evaluation(self._path, self._step, figures)
                end_announcement(self._path)
                # The evaluation may have pushed an earlier checkpoint out of the best ones.
                remove_old(self._path, self._options.keep_checkpoint_max, {*self._best_steps(), self._step})
            self._progress.after_evaluation(self._step, figures, self._evaluator.samples)
            self._callbacks.on_evaluation(self._step, figures)
        if self._throughput.peak:
            self._throughput.measure_peak()
        self._throughput.restart()
        if self._is_without_gain():
            return Ending(self._step, EARLY_STOPPING)
        is_last = self._step >= self._hparams.train_steps
        has_signal = all_gather(self._strategy, float(self._signals.number > 0)).any()
        return self._stop() if self._is_stopped_here() or (has_signal and not is_last) else None

    def _make_evaluator(self) -> Evaluator:
        training = self._training
        return Evaluator(
            training.run_dir,
            training.data_dir,
            training.strategy,
            training.model,
            self._options,
            training.micro_batches,
            interruption=Interruption(training.strategy, self._signals),
            is_chief=training.is_chief,
        )

    def _is_without_gain(self) -> bool:
        patience, metric = self._options.early_stopping_patience, self._options.eval_metric
        if not patience:
            return False
        evaluations = read_evaluations(self._path) if self._is_chief else {}
        without_gain = evaluations_without_gain(evaluations, metric)
        # Only the chief reads evaluations; the other workers contribute False.
        if not all_gather(self._strategy, float(without_gain >= patience)).any():
            return False
        best = ", ".join(f"ckpt-{step}" for step in best_steps(evaluations, metric, 1))
        self._progress.say(
            f"stopped early: {without_gain} evaluations without a better {metric} than that of {best}; raise "
            f"`early_stopping_patience` to continue"
        )
        return True

    def _end_before_it_begins(self) -> Ending | None:
        """Runs an evaluation that a stopped process missed. Returns the ending if the run is now over, else None."""
        if self.misses_evaluation():
            ending = self._evaluate()
        else:
            ending = Ending(self._step, EARLY_STOPPING) if self._is_without_gain() else None
        is_trained = self._step >= self._hparams.train_steps
        return Ending(self._step, LAST_STEP) if is_trained and not ending else ending

    def misses_evaluation(self) -> bool:
        """Returns whether the last checkpoint's evaluation is due but missing. All workers must call it together."""
        if not self._evaluates or not self._step:
            return False
        every = self._options.save_checkpoints_steps
        is_due = self._is_chief and is_evaluation_due(self._path, self._step)
        if self._is_chief and every and self._step % every == 0:  # earlier versions did not announce evaluations
            is_due = self._step not in read_evaluations(self._path)
        return bool(all_gather(self._strategy, float(is_due)).any())

    def _stop(self, where: str = "after") -> Ending:
        """Says who stopped the run, and returns its ending. The last step must be saved, at least in the background."""
        self._report_saved(wait=True)
        number = self._signals.number
        if number:
            name = signal.Signals(number).name
        else:
            name = "a callback" if self._callbacks.stop else "another worker"
        how = "resume" if where == "after" else "evaluate this step and resume"
        self._progress.say(f"stopped by {name} {where} step {self._step}, which is saved; start the run again to {how}")
        if self._callbacks.stop and not number:
            return Ending(self._step, CALLBACK)
        return Ending(self._step, SIGNAL, number or signal.SIGTERM)
