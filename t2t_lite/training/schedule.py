"""The learning-rate schedule of section 5.3 of the paper."""

from keras import ops


def learning_rate(step, hparams):
    """Returns constant * hidden_size^-0.5 * min(step^-0.5, step * warmup^-1.5), equation 3.

    Args:
      step: the number of the next update, counted from 1; number or tensor.
      hparams: the settings; learning_rate_constant, hidden_size and learning_rate_warmup_steps are used.
    """
    step = ops.cast(step, "float32")
    warmup = float(hparams.learning_rate_warmup_steps)
    factor = hparams.learning_rate_constant * hparams.hidden_size**-0.5
    return factor * ops.minimum(ops.rsqrt(step), step * warmup**-1.5)
