"""Learning rate schedules: for Keras, and those that the setting `learning_rate_schedule` selects.

A selected schedule is a function of (step, hparams) that returns the learning rate as a float32 scalar. `step`, a
number or a tensor, is the number of the update, counted from 1. The rate of every schedule here first grows linearly to
the same peak over learning_rate_warmup_steps.
"""

import math

import keras

from t2t_lite.arrays import Array
from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.layers.ops import ops
from t2t_lite.registry import LEARNING_RATE_SCHEDULES


def inverse_sqrt(step: int | Array, hidden_size: int, warmup_steps: int, constant: float = 1.0) -> Array:
    """Returns constant * hidden_size^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), equation 3: float32 scalar.

    Args:
      step: the number of the next update, counted from 1; number or tensor.
      hidden_size: d_model.
      warmup_steps: number of updates over which the rate grows.
      constant: a factor; the paper has none.
    """
    step = ops.cast(step, "float32")
    warmup = float(warmup_steps)
    return constant * hidden_size**-0.5 * ops.minimum(ops.rsqrt(step), step * warmup**-1.5)


@keras.saving.register_keras_serializable(package="t2t_lite")
class InverseSqrt(keras.optimizers.schedules.LearningRateSchedule):
    """The paper's schedule for a Keras optimizer: linear growth, then the inverse square root of the step.

    Args:
      hidden_size, warmup_steps, constant: see `inverse_sqrt`.

    Call arguments:
      step: the number of updates so far; Keras counts from 0, the paper's step_num from 1.

    Raises:
      UserError: if warmup_steps is below 1.

    Example: the paper's optimizer.

    >>> schedule = InverseSqrt(hidden_size=512, warmup_steps=4000)
    >>> adam = keras.optimizers.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    >>> print(f"{float(schedule(3999)):.2e}")
    6.99e-04
    """

    def __init__(self, hidden_size: int, warmup_steps: int, constant: float = 1.0) -> None:
        if warmup_steps < 1:
            raise UserError(f"warmup_steps={warmup_steps} is too small: it must be at least 1")
        self.hidden_size = hidden_size
        self.warmup_steps = warmup_steps
        self.constant = constant

    def __call__(self, step: int | Array) -> Array:
        """Returns the learning rate of the next update, float32 scalar."""
        return inverse_sqrt(step + 1, self.hidden_size, self.warmup_steps, self.constant)

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        return {"hidden_size": self.hidden_size, "warmup_steps": self.warmup_steps, "constant": self.constant}


def learning_rate(step: int | Array, hparams: HParams) -> Array:
    """Returns the learning rate of update `step` (counted from 1) under the selected schedule: float32 scalar."""
    rate = LEARNING_RATE_SCHEDULES[hparams.learning_rate_schedule](step, hparams)
    if rate is None:
        raise UserError(
            f"the learning rate schedule '{hparams.learning_rate_schedule}' returns no number; make it "
            f"return the learning rate"
        )
    return ops.cast(rate, "float32")


def paper_schedule(step: int | Array, hparams: HParams) -> Array:
    """Returns the rate of the paper's schedule (equation 3), which falls with the inverse square root of the step."""
    factor = hparams.learning_rate_constant
    if hparams.learning_rate:
        factor = hparams.learning_rate * (hparams.hidden_size * hparams.learning_rate_warmup_steps) ** 0.5
    return inverse_sqrt(step, hparams.hidden_size, hparams.learning_rate_warmup_steps, factor)


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
    return ops.clip((ops.cast(step, "float32") - warmup) / (hparams.learning_rate_decay_steps - warmup), 0.0, 1.0)
