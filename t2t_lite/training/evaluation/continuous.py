"""Continuous evaluation: a separate process evaluates the checkpoints of a training run as they appear."""

import time
from pathlib import Path

import tensorflow as tf

from t2t_lite.data.manifest import check_data
from t2t_lite.display import Display
from t2t_lite.errors import UserError
from t2t_lite.runs.checkpoint_files import existing, list_checkpoints
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.runs.training_state import TrainingState
from t2t_lite.training.evaluation.evaluator import Evaluator
from t2t_lite.training.evaluation.model_selection import add_evaluation, best_steps, read_evaluations
from t2t_lite.training.monitoring.progress import Progress
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.setup import build_model, vocab_sizes

# Seconds between two scans of the run directory.
POLL_SECS = 5.0


def evaluate_continuously(
    run_dir: RunDir,
    data_dir: Path,
    strategy: tf.distribute.Strategy,
    options: TrainOptions,
    display: Display | None = None,
) -> None:
    """Evaluates all checkpoints of a run that have not been evaluated yet, and then new checkpoints as they appear.

    Ends after the checkpoint of the run's last step, or after `options.eval_wait_secs` without a new checkpoint.
    Without a `display`, the logger shows the results.
    """
    hparams = run_dir.hparams
    inputs_size, targets_size = vocab_sizes(run_dir, check_data(data_dir, run_dir.problem))
    model, optimizer = build_model(hparams, targets_size, strategy, options.random_seed, inputs_size)
    evaluator = Evaluator(run_dir, data_dir, strategy, model, options)
    state = TrainingState(model, optimizer)
    seen: set[int] = set()
    since = time.monotonic()
    with Progress(run_dir.path, 0, hparams.train_steps, display or Display()) as progress:
        while True:
            seen.update(read_evaluations(run_dir.path))
            for step, path in list_checkpoints(run_dir.path):
                if step in seen:
                    continue
                seen.add(step)
                try:
                    state.restore_from(existing(path) or path)  # the trainer may have replaced it with a new version
                except UserError as error:
                    if existing(path):
                        raise
                    progress.say(f"{path} was removed before it was evaluated ({error})")
                    continue
                with progress.evaluation(step) as show, optimizer.averages_in_place():
                    figures = evaluator(show)
                add_evaluation(run_dir.path, step, figures)
                progress.after_evaluation(step, figures, evaluator.samples)
                best = best_steps(read_evaluations(run_dir.path), options.eval_metric, 1)
                progress.say(f"best by {options.eval_metric}: ckpt-{best[0]}")
                since = time.monotonic()
            if hparams.train_steps in seen or time.monotonic() - since >= options.eval_wait_secs:
                return
            time.sleep(min(POLL_SECS, max(options.eval_wait_secs, 0.1)))
