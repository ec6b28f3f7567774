"""The optimizer of section 5.3 of the paper."""

import keras

from t2t_lite.training.schedule import PaperSchedule


def make_optimizer(hparams) -> keras.optimizers.Optimizer:
    """Returns Adam with the paper's schedule. Its `apply` sums gradients over replicas, so hand it shares of a sum."""
    return keras.optimizers.Adam(
        learning_rate=PaperSchedule(hparams),
        beta_1=hparams.adam_beta1,
        beta_2=hparams.adam_beta2,
        epsilon=hparams.adam_epsilon,
        name="adam",
    )
