"""Adam with the paper's schedule (section 5.3), an average of the weights and a dynamic loss scale beside it."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from t2t_lite.training.schedule import learning_rate

# Of the loss in mixed_float16: the first scale, and after how many good steps in a row it is doubled.
FIRST_LOSS_SCALE = 2.0**15
LOSS_SCALE_GROWTH_STEPS = 2000


class Adam:
    """Adam (Kingma & Ba 2015) on distributed variables. Make it in the scope of the strategy.

    A step may be skipped, for its gradients are not finite: then the weights and moments stay, `iterations` counts on,
    and in mixed_float16 the loss scale is halved.

    Args:
      keras_variables: the trainable ones of a model.
      hparams: gives the betas, epsilon, the schedule, ema_decay and the precision.
    """

    def __init__(self, keras_variables, hparams):
        self.hparams = hparams
        self.variables = [variable.value for variable in keras_variables]
        names = [variable.path.replace("/", "_") for variable in keras_variables]
        self.iterations = tf.Variable(0, dtype=tf.int64, name="iteration")
        self.skipped = tf.Variable(0, dtype=tf.int64, name="skipped")
        self._momentums = [_zeros_like(variable) for variable in self.variables]
        self._velocities = [_zeros_like(variable) for variable in self.variables]
        self.state = {"adam.iteration": self.iterations, "adam.skipped": self.skipped}
        self.state |= {f"adam.{name}_momentum": slot for name, slot in zip(names, self._momentums)}
        self.state |= {f"adam.{name}_velocity": slot for name, slot in zip(names, self._velocities)}
        self.loss_scale = None
        if hparams.precision == "mixed_float16":
            self.loss_scale = tf.Variable(FIRST_LOSS_SCALE, name="loss_scale")
            self._good_steps = tf.Variable(0, dtype=tf.int64, name="good_steps")
            self.state |= {"loss_scale": self.loss_scale, "loss_scale_good_steps": self._good_steps}
        self.averages = []
        if hparams.ema_decay:
            self.averages = [tf.Variable(variable, trainable=False) for variable in self.variables]
            self.state |= {f"average.{name}": average for name, average in zip(names, self.averages)}

    def apply(self, strategy, gradients, loss_scale) -> None:
        """Makes one update. Call it in cross-replica context.

        Args:
          strategy: the devices.
          gradients: of the global batch's loss times the loss scale, one for each variable, summed over replicas.
          loss_scale: float32 scalar.
        """
        hparams = self.hparams
        made = tf.cast(self.iterations - self.skipped, tf.float32)  # updates so far
        powers = [tf.pow(beta, made + 1.0) for beta in (hparams.adam_beta1, hparams.adam_beta2)]
        rate = learning_rate(self.iterations + 1, hparams)
        beta1, beta2, epsilon = (
            tf.constant(value) for value in (hparams.adam_beta1, hparams.adam_beta2, hparams.adam_epsilon)
        )

        def update(variable, gradient, momentum, velocity):
            if self.loss_scale is not None:
                gradient /= loss_scale
            # One pass over all four arrays; put together from single operations it would be about sixteen.
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=momentum.handle,
                v=velocity.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=rate,
                beta1=beta1,
                beta2=beta2,
                epsilon=epsilon,
                grad=gradient,
            )

        for variable, *others in zip(self.variables, gradients, self._momentums, self._velocities):
            strategy.extended.update(variable, update, args=others, group=False)
        share = 1.0 - self._average_decay(made + 1.0)
        for average, variable in zip(self.averages, self.variables):
            strategy.extended.update(average, _follow, args=(variable, share), group=False)

    def count(self, good) -> None:
        """Counts a step, after `apply` if that was called. Call it in cross-replica context.

        Args:
          good: bool scalar; False: it was skipped, for its gradients were not finite.
        """
        self.iterations.assign_add(1)
        self.skipped.assign_add(tf.cast(~good, tf.int64))
        if self.loss_scale is None:
            return
        good_steps = tf.where(good, self._good_steps + 1, 0)
        is_long = good_steps >= LOSS_SCALE_GROWTH_STEPS
        scale = tf.where(good, tf.where(is_long, 2.0, 1.0) * self.loss_scale, tf.maximum(self.loss_scale / 2.0, 1.0))
        self.loss_scale.assign(scale)
        self._good_steps.assign(tf.where(is_long, tf.zeros((), tf.int64), good_steps))

    @contextlib.contextmanager
    def averages_in_place(self) -> Iterator[None]:
        """Inside the block the weights are their moving averages, if there are such."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def restart_averages(self) -> None:
        """Begins the moving averages anew with the weights of now."""
        for average, variable in zip(self.averages, self.variables):
            average.assign(variable)

    def _exchange(self) -> None:
        for average, variable in zip(self.averages, self.variables):
            value = variable.numpy()
            variable.assign(average)
            average.assign(value)

    def _average_decay(self, updates):
        # At first lower than ema_decay, so that the initial weights, which are random, are soon forgotten. The rule is
        # that of tf.train.ExponentialMovingAverage, given the number of updates, this one included.
        return tf.minimum(self.hparams.ema_decay, (1.0 + updates) / (10.0 + updates))


def _follow(average, variable, share):
    average.assign_sub(share * (average - variable))


def _zeros_like(variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape), trainable=False)
