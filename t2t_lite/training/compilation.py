"""Decides whether XLA compiles training steps, and how batches are formed by default."""

import tensorflow as tf

from t2t_lite.training.strategy import all_gather, has_gpus


def may_compile(strategy: tf.distribute.Strategy, xla_compile: bool | None) -> bool:
    """Returns `xla_compile` or, if it is None, whether there are GPUs.

    All workers must call it together, and all get the answer of the first worker.
    """
    return bool(all_gather(strategy, float(has_gpus(strategy) if xla_compile is None else xla_compile))[0])


def default_batch_by(compiles: bool) -> str:
    """Returns the `batch_by` that a new run with batch_by=auto uses."""
    return "shapes" if compiles else "both"


def compiles(may_compile: bool, xla_compile: bool | None, batch_by: str) -> bool:
    """Returns whether to compile steps: by default, only if batches have few shapes."""
    return may_compile and (xla_compile is not None or batch_by == "shapes")
