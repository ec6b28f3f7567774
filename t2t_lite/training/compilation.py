"""Whether the steps of a training are compiled with XLA, and the batches that suit that."""

import tensorflow as tf

from t2t_lite.training.strategy import all_gather, has_gpus


def may_compile(strategy: tf.distribute.Strategy, xla_compile: bool | None) -> bool:
    """Returns what `xla_compile` says, None: whether there are GPUs. Workers follow the first; all must call it."""
    return bool(all_gather(strategy, float(has_gpus(strategy) if xla_compile is None else xla_compile))[0])


def batch_by_of(compiles: bool) -> str:
    """Returns the `batch_by` of a new run whose settings leave it open."""
    return "shapes" if compiles else "both"


def compiles(may_compile: bool, xla_compile: bool | None, batch_by: str) -> bool:
    """Returns whether steps are compiled: without being asked for, only if batches have few shapes."""
    return may_compile and (xla_compile is not None or batch_by == "shapes")
