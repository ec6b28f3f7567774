"""Whether the steps of a training are compiled with XLA, and the batches that suit that."""

import tensorflow as tf

from t2t_lite.config import AUTO_BATCH_BY
from t2t_lite.training.strategy import has_gpus


def choose_compilation(strategy: tf.distribute.Strategy, batch_by: str, xla_compile: bool | None) -> tuple[str, bool]:
    """Returns (the `batch_by` of a run, whether its steps are compiled).

    Args:
      strategy: the devices.
      batch_by: that of the settings; "auto": by whether steps are compiled.
      xla_compile: the option; None: on GPUs, if batches have few shapes.
    """
    compiles = has_gpus(strategy) if xla_compile is None else xla_compile
    if batch_by == AUTO_BATCH_BY:
        batch_by = "shapes" if compiles else "both"
    return batch_by, compiles and (xla_compile is not None or batch_by == "shapes")
