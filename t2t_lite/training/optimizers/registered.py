"""The optimizers selected by the setting `optimizer`."""

from collections.abc import Sequence

import keras

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.registry import OPTIMIZERS
from t2t_lite.training import private_names
from t2t_lite.training.optimizers.base import Optimizer
from t2t_lite.training.optimizers.updates import FusedAdam, KerasOptimizer

# Arguments of Keras optimizers that the trainer does not use, and the settings that replace them.
_SETTINGS = {
    "clipnorm": "clip_norm",
    "clipvalue": "clip_norm",
    "global_clipnorm": "clip_norm",
    "use_ema": "ema_decay",
    "gradient_accumulation_steps": "batch_tokens",
    "loss_scale_factor": "precision=mixed_float16",
}


def make_optimizer(keras_variables: Sequence[keras.Variable], hparams: HParams) -> Optimizer:
    """Returns the optimizer that the settings select. Call it in the scope of the strategy."""
    rule = OPTIMIZERS[hparams.optimizer](hparams)
    _check(rule, f"the optimizer '{hparams.optimizer}'")
    if hparams.weight_decay and not rule.weight_decay:
        raise UserError(
            f"the optimizer '{hparams.optimizer}' ignores weight_decay; pass it weight_decay=hparams.weight_decay"
        )
    if private_names.has_schedule(rule):
        raise UserError(
            f"the optimizer '{hparams.optimizer}' has its own schedule, which training does not use; register the "
            f"schedule in LEARNING_RATE_SCHEDULES"
        )
    if type(rule) in (keras.optimizers.Adam, keras.optimizers.AdamW) and not rule.amsgrad:
        return FusedAdam(keras_variables, hparams, rule)
    return KerasOptimizer(keras_variables, hparams, rule)


def adam(hparams: HParams) -> keras.optimizers.Optimizer:
    """Returns the paper's Adam (section 5.3). For every optimizer, the trainer sets the learning rate."""
    return keras.optimizers.Adam(beta_1=hparams.adam_beta1, beta_2=hparams.adam_beta2, epsilon=hparams.adam_epsilon)


def adamw(hparams: HParams) -> keras.optimizers.Optimizer:
    """Returns Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""
    return keras.optimizers.AdamW(
        beta_1=hparams.adam_beta1,
        beta_2=hparams.adam_beta2,
        epsilon=hparams.adam_epsilon,
        weight_decay=hparams.weight_decay,
    )


def adafactor(hparams: HParams) -> keras.optimizers.Optimizer:
    """Returns Adafactor (Shazeer and Stern 2018). Its learning rate is relative to the size of each weight."""
    return keras.optimizers.Adafactor(weight_decay=hparams.weight_decay)


def lion(hparams: HParams) -> keras.optimizers.Optimizer:
    """Returns Lion (Chen et al. 2023), with its authors' betas 0.9 and 0.99."""
    return keras.optimizers.Lion(beta_1=0.9, beta_2=0.99, weight_decay=hparams.weight_decay)


def sgd(hparams: HParams) -> keras.optimizers.Optimizer:
    """Returns stochastic gradient descent with momentum 0.9."""
    return keras.optimizers.SGD(momentum=0.9, weight_decay=hparams.weight_decay)


def _check(rule: object, what: str) -> None:
    if not isinstance(rule, keras.optimizers.Optimizer):
        raise UserError(
            f"{what} is {type(rule).__name__}, not a keras.optimizers.Optimizer; register a function that takes the "
            f"settings and returns one"
        )
    for argument, setting in _SETTINGS.items():
        if getattr(rule, argument):
            raise UserError(
                f"{what} sets Keras' argument {argument}, which training does not use; remove it and set "
                f"`hparams={setting}`"
            )
    base = keras.optimizers.Optimizer
    if any(getattr(type(rule), name, None) is not getattr(base, name, None) for name in private_names.OF_ALL_VARIABLES):
        raise UserError(
            f"{what} is of type {type(rule).__name__}, which does not update each variable separately; register one "
            f"that overrides only build and update_step"
        )
