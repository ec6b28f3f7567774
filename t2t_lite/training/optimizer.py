"""Adam with the paper's schedule (section 5.3), a moving average of the weights and dynamic loss scaling."""

import contextlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.training.schedule import learning_rate

# Loss scaling in mixed_float16: the initial scale, and the number of finite steps in a row after which it is doubled.
FIRST_LOSS_SCALE = 2.0**15
LOSS_SCALE_GROWTH_STEPS = 2000


class Adam:
    """Adam (Kingma & Ba 2015) on distributed variables. Create it in the scope of the strategy.

    A step whose gradients are not finite is skipped: weights and moments stay unchanged, `iterations` still counts it,
    and in mixed_float16 the loss scale is halved.

    Args:
      keras_variables: a model's trainable variables.
      hparams: the settings; the betas, epsilon, the schedule, ema_decay and the precision are used.
    """

    def __init__(self, keras_variables: Sequence[keras.Variable], hparams: HParams) -> None:
        self.hparams = hparams
        self.variables = [variable.value for variable in keras_variables]
        names = [variable.path.replace("/", "_") for variable in keras_variables]
        self.iterations = tf.Variable(tf.constant(0, tf.int64), name="iteration")
        self.skipped = tf.Variable(tf.constant(0, tf.int64), name="skipped")
        self._momentums = [_zeros_like(variable) for variable in self.variables]
        self._velocities = [_zeros_like(variable) for variable in self.variables]
        self.state = {"adam.iteration": self.iterations, "adam.skipped": self.skipped}
        self.state |= {f"adam.{name}_momentum": slot for name, slot in zip(names, self._momentums)}
        self.state |= {f"adam.{name}_velocity": slot for name, slot in zip(names, self._velocities)}
        self.loss_scale = None
        if hparams.precision == "mixed_float16":
            self.loss_scale = tf.Variable(tf.constant(FIRST_LOSS_SCALE), name="loss_scale")
            self._good_steps = tf.Variable(tf.constant(0, tf.int64), name="good_steps")
            self.state |= {"loss_scale": self.loss_scale, "loss_scale_good_steps": self._good_steps}
        self.averages = []
        if hparams.ema_decay:
            self.averages = [tf.Variable(variable, trainable=False) for variable in self.variables]
            self.state |= {f"average.{name}": average for name, average in zip(names, self.averages)}

    def apply(self, strategy: tf.distribute.Strategy, gradients: Sequence[tf.Tensor], loss_scale: tf.Tensor) -> None:
        """Makes one update. Call it in cross-replica context.

        Args:
          strategy: the devices.
          gradients: one per variable, of the global batch's loss times the loss scale, summed over replicas.
          loss_scale: float32 scalar.
        """
        hparams = self.hparams
        made = tf.cast(self.iterations - self.skipped, tf.float32)  # updates so far
        powers = [tf.pow(beta, made + 1.0) for beta in (hparams.adam_beta1, hparams.adam_beta2)]
        rate = learning_rate(self.iterations + 1, hparams)
        beta1, beta2, epsilon = (
            tf.constant(value) for value in (hparams.adam_beta1, hparams.adam_beta2, hparams.adam_epsilon)
        )

        def update(variable: tf.Variable, gradient: tf.Tensor, momentum: tf.Variable, velocity: tf.Variable) -> None:
            if self.loss_scale is not None:
                gradient /= loss_scale
            # The fused kernel makes one pass over the four arrays; single operations would make about sixteen.
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
            strategy.extended.update(average, _move_average, args=(variable, share), group=False)

    def count(self, good: tf.Tensor) -> None:
        """Counts a step, after `apply` or instead of it. Call it in cross-replica context.

        Args:
          good: bool scalar; False: the step was skipped, because its gradients were not finite.
        """
        self.iterations.assign_add(1)
        self.skipped.assign_add(tf.cast(tf.logical_not(good), tf.int64))
        if self.loss_scale is None:
            return
        good_steps = tf.where(good, self._good_steps + 1, 0)
        is_long = good_steps >= LOSS_SCALE_GROWTH_STEPS
        scale = tf.where(good, tf.where(is_long, 2.0, 1.0) * self.loss_scale, tf.maximum(self.loss_scale / 2.0, 1.0))
        self.loss_scale.assign(scale)
        self._good_steps.assign(tf.where(is_long, tf.zeros((), tf.int64), good_steps))

    @contextlib.contextmanager
    def averages_in_place(self) -> Iterator[None]:
        """Replaces the weights by their moving averages inside the block, if averages are kept."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def restart_averages(self) -> None:
        """Restarts the moving averages with the current weights."""
        for average, variable in zip(self.averages, self.variables):
            average.assign(variable)

    def _exchange(self) -> None:
        for average, variable in zip(self.averages, self.variables):
            value = variable.numpy()
            variable.assign(average)
            average.assign(value)

    def _average_decay(self, updates: tf.Tensor) -> tf.Tensor:
        # Lower than ema_decay at first, so that the random initial weights are soon forgotten. This is the rule of
        # tf.train.ExponentialMovingAverage with num_updates, the current update included.
        return tf.minimum(self.hparams.ema_decay, (1.0 + updates) / (10.0 + updates))


def _move_average(average: tf.Variable, variable: tf.Variable, share: tf.Tensor) -> None:
    average.assign_sub(share * (average - variable))


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape), trainable=False)
