"""Learning rate schedules, selected by the setting `learning_rate_schedule`.

A schedule is a function of (step, hparams) that returns the learning rate as a float32 scalar. `step`, a number or a
tensor, is the number of the update, counted from 1. The rate of every schedule here first grows linearly to the same
peak over learning_rate_warmup_steps.
"""

import math

from t2t_lite import schedules
from t2t_lite.arrays import Array
from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.layers.ops import ops
from t2t_lite.registry import LEARNING_RATE_SCHEDULES


def learning_rate(step: int | Array, hparams: HParams) -> Array:
    """Returns the learning rate of update `step` (counted from 1) under the selected schedule: float32 scalar."""
    rate = LEARNING_RATE_SCHEDULES[hparams.learning_rate_schedule](step, hparams)
    if rate is None:
        raise UserError(
            f"the learning rate schedule '{hparams.learning_rate_schedule}' returns no number; make it "
            f"return the learning rate"
        )
    return ops.cast(rate, "float32")


def inverse_sqrt(step: int | Array, hparams: HParams) -> Array:
    """Returns the rate of the paper's schedule (equation 3), which falls with the inverse square root of the step."""
    factor = hparams.learning_rate_constant
    if hparams.learning_rate:
        factor = hparams.learning_rate * (hparams.hidden_size * hparams.learning_rate_warmup_steps) ** 0.5
    return schedules.inverse_sqrt(step, hparams.hidden_size, hparams.learning_rate_warmup_steps, factor)


def cosine(step: int | Array, hparams: HParams) -> Array:
    """Returns a rate that falls from the peak to 0 at learning_rate_decay_steps by a half cosine (Loshchilov 2017)."""
    return constant(step, hparams) * 0.5 * (1.0 + ops.cos(math.pi * _progress(step, hparams)))


def linear(step: int | Array, hparams: HParams) -> Array:
    """Returns a rate that falls linearly from the peak to 0 at learning_rate_decay_steps."""
    return constant(step, hparams) * (1.0 - _progress(step, hparams))


def constant(step: int | Array, hparams: HParams) -> Array:
    """Returns a rate that stays at the peak after warm-up."""
    share = ops.cast(step, "float32") / hparams.learning_rate_warmup_steps
    return peak_learning_rate(hparams) * ops.minimum(share, 1.0)


def peak_learning_rate(hparams: HParams) -> float:
    """Returns the rate at the end of warm-up: `learning_rate`, or if that is 0, the peak of the paper's schedule."""
    if hparams.learning_rate:
        return hparams.learning_rate
    return hparams.learning_rate_constant * (hparams.hidden_size * hparams.learning_rate_warmup_steps) ** -0.5


def _progress(step: int | Array, hparams: HParams) -> Array:
    """Returns the completed share, 0 to 1, of the steps from the peak to learning_rate_decay_steps."""
    warmup = hparams.learning_rate_warmup_steps
    over = (ops.cast(step, "float32") - warmup) / (hparams.learning_rate_decay_steps - warmup)
    return ops.clip(over, 0.0, 1.0)
