"""The learning rate of a training, section 5.3 of the paper."""

from t2t_lite.arrays import Array
from t2t_lite.config import HParams
from t2t_lite.schedules import inverse_sqrt


def learning_rate(step: int | Array, hparams: HParams) -> Array:
    """Returns the learning rate of an update, see `inverse_sqrt`.

    Args:
      step: the number of the update, counted from 1; number or tensor.
      hparams: the settings; learning_rate_constant, hidden_size and learning_rate_warmup_steps are used.
    """
    return inverse_sqrt(step, hparams.hidden_size, hparams.learning_rate_warmup_steps, hparams.learning_rate_constant)
