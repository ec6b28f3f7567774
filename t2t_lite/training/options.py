"""How to run a training."""

import dataclasses

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
SCHEDULES = ("train_and_evaluate", "train", "eval")


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """How to run a training; nothing here changes what is learned but `random_seed` and `warm_start_from`.

    Args:
      schedule: "train_and_evaluate"; "train": without evaluations; "eval": evaluate the checkpoints that another
        process writes.
      save_checkpoints_secs: seconds between two checkpoints, each with an evaluation.
      save_checkpoints_steps: steps between two checkpoints; if above 0, seconds do not count.
      keep_checkpoint_max: how many of the last checkpoints are kept.
      keep_best_n: how many of the best are kept besides.
      eval_metric: what best means: a word of `choice.METRICS`.
      eval_decode: whether evaluations translate (or parse) the dev split, for BLEU (or F1).
      decode_hparams: "name=value,...": changes to the problem's search for that.
      early_stopping_patience: end after so many evaluations without a better one; 0: never.
      eval_wait_secs: with schedule=eval, end when no new checkpoint has come for so long.
      log_step_count_steps: steps between two progress reports.
      random_seed: fixes initial weights, order of data and dropout.
      warm_start_from: another run, or a checkpoint in it, whose weights are the initial ones.
      max_tokens_per_replica: positions of the longer side, padding included, that a device holds at once; None: as many
        as fit `free_bytes`.
      free_bytes: memory for each device, as `device_memory` says before the devices are made; None: not known.
      xla_compile: compile loss and gradients, once for each of few shapes.
      peak_tflops: of one device, for the utilisation; None: measured.
      profile: write a TensorBoard trace of a few steps.
    """

    schedule: str = "train_and_evaluate"
    save_checkpoints_secs: int = 600
    save_checkpoints_steps: int = 0
    keep_checkpoint_max: int = 20
    keep_best_n: int = 0
    eval_metric: str = "loss"
    eval_decode: bool = False
    decode_hparams: str = ""
    early_stopping_patience: int = 0
    eval_wait_secs: int = 3600
    log_step_count_steps: int = 100
    random_seed: int = 1
    warm_start_from: str | None = None
    max_tokens_per_replica: int | None = None
    free_bytes: int | None = None
    xla_compile: bool = False
    peak_tflops: float | None = None
    profile: bool = False
