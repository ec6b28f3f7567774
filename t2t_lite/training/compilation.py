"""Decides whether training steps are compiled with XLA, and which batches suit compilation."""

import tensorflow as tf

from t2t_lite.training.strategy import all_gather, has_gpus


def may_compile(strategy: tf.distribute.Strategy, xla_compile: bool | None) -> bool:
    """Returns `xla_compile`, or whether there are GPUs if it is None. All workers must call it and follow the first."""
    return bool(all_gather(strategy, float(has_gpus(strategy) if xla_compile is None else xla_compile))[0])


def default_batch_by(compiles: bool) -> str:
    """Returns the `batch_by` of a new run whose settings do not choose one."""
    return "shapes" if compiles else "both"


def compiles(may_compile: bool, xla_compile: bool | None, batch_by: str) -> bool:
    """Returns whether to compile steps. Unless the user asks for it, compile only if batches have few shapes."""
    return may_compile and (xla_compile is not None or batch_by == "shapes")
