"""The paper's learning-rate schedule (section 5.3), as a function and for Keras' optimizers."""

import keras

from t2t_lite.arrays import Array
from t2t_lite.errors import UserError
from t2t_lite.layers.ops import ops


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
    factor = constant * hidden_size**-0.5
    return factor * ops.minimum(ops.rsqrt(step), step * warmup**-1.5)


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
