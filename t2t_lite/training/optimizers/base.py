"""The common base of all optimizers: skipped steps, loss scaling, clipping, weight decay, moving averages."""

import abc
import contextlib
from collections.abc import Callable, Iterator, Sequence

import keras
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.training.schedule import learning_rate

# Loss scaling in mixed_float16: the initial scale, and the number of consecutive finite steps before it is doubled.
FIRST_LOSS_SCALE = 2.0**15
LOSS_SCALE_GROWTH_STEPS = 2000


class Optimizer(abc.ABC):
    """Updates distributed variables with the learning rate of the selected schedule.

    A step with non-finite gradients is skipped: weights and moments stay unchanged, `iterations` still counts it, and
    mixed_float16 halves the loss scale. Create the optimizer in the scope of the strategy.

    Args:
      weight_decay: an update reduces each matrix by this share times the learning rate (Loshchilov and Hutter 2019).
        Vectors (biases and the parameters of norms) do not decay.
      prefix: prefix of the state's names in checkpoints.
    """

    _can_be_masked = False  # whether `_make_update` takes `good`; otherwise `apply` branches

    def __init__(
        self, keras_variables: Sequence[keras.Variable], hparams: HParams, weight_decay: float, prefix: str
    ) -> None:
        self.hparams = hparams
        self.variables = [variable.value for variable in keras_variables]
        self._weight_decay = weight_decay
        self.iterations = tf.Variable(tf.constant(0, tf.int64), name="iteration")
        self.skipped = tf.Variable(tf.constant(0, tf.int64), name="skipped")
        self.state = {f"{prefix}.iteration": self.iterations, f"{prefix}.skipped": self.skipped}
        self.loss_scale = None
        if hparams.precision == "mixed_float16":
            self.loss_scale = tf.Variable(tf.constant(FIRST_LOSS_SCALE), name="loss_scale")
            self._good_steps = tf.Variable(tf.constant(0, tf.int64), name="good_steps")
            self.state |= {"loss_scale": self.loss_scale, "loss_scale_good_steps": self._good_steps}
        self.averages = []
        if hparams.ema_decay:
            self.averages = [tf.Variable(variable, trainable=False) for variable in self.variables]
            names = map(state_name, keras_variables)
            self.state |= {f"average.{name}": average for name, average in zip(names, self.averages)}

    def apply(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[tf.Tensor],
        loss_scale: tf.Tensor,
        norm: tf.Tensor,
        good: tf.Tensor | None = None,
    ) -> None:
        """Makes one update. Call it in cross-replica context.

        Args:
          gradients: for each variable, the gradient of the global batch's loss times the loss scale, summed over
            replicas.
          loss_scale: float32 scalar.
          norm: the global norm of the gradients of the unscaled loss, float32 scalar; clip_norm limits it.
          good: bool scalar; if false, nothing changes. The gradients must be finite even then. None: true.
        """
        if good is not None and not self._can_be_masked:
            tf.cond(good, lambda: [self.apply(strategy, gradients, loss_scale, norm), 0][1], lambda: 0)
            return
        made = tf.cast(self.iterations - self.skipped, tf.float32)  # updates so far
        rate = learning_rate(self.iterations + 1, self.hparams)
        if good is not None:
            rate, norm = tf.where(good, rate, 0.0), tf.where(good, norm, 0.0)
        divisor = self._divisor(loss_scale, norm)
        update = self._make_update(made, rate, good)

        def update_one(variable: tf.Variable, gradient: tf.Tensor, *slots: tf.Variable) -> None:
            if self._weight_decay and variable.shape.rank > 1:
                variable.assign_sub(variable * (self._weight_decay * rate))
            update(variable, gradient if divisor is None else gradient / divisor, *slots)

        for variable, *others in zip(self.variables, gradients, *self._slots()):
            strategy.extended.update(variable, update_one, args=others, group=False)
        share = 1.0 - self._average_decay(made + 1.0)
        for average, variable in zip(self.averages, self.variables):
            strategy.extended.update(average, _move_average, args=(variable, share, good), group=False)

    def loss_scale_value(self) -> tf.Tensor:
        """Returns the loss scale, float32 scalar; 1 without loss scaling."""
        return tf.constant(1.0) if self.loss_scale is None else self.loss_scale.read_value()

    @abc.abstractmethod
    def _make_update(self, made: tf.Tensor, rate: tf.Tensor, good: tf.Tensor | None) -> Callable[..., None]:
        """Returns a function (variable, gradient, *slots) that updates a variable and its slots on one device.

        `made` is the number of updates so far, `rate` the learning rate, both float32 scalars. `good`, see `apply`, is
        None unless the update can be masked; if it is false, the rate is 0.
        """

    def _slots(self) -> Sequence[Sequence[tf.Variable]]:
        """Returns the slots, such as moments: lists of variables, each with one variable per weight."""
        return ()

    def _divisor(self, loss_scale: tf.Tensor, norm: tf.Tensor) -> tf.Tensor | None:
        """Returns the number that divides the gradients, for loss scaling and clipping; None: they stay unchanged."""
        divisor = None if self.loss_scale is None else loss_scale
        if not self.hparams.clip_norm:
            return divisor
        excess = tf.maximum(norm / self.hparams.clip_norm, 1.0)
        return excess if divisor is None else divisor * excess

    def count(self, good: tf.Tensor) -> None:
        """Counts a step and adapts the loss scale; `good` is whether the loss and gradients were finite.

        Call it in cross-replica context, after `apply` if that was called.
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
        """Replaces the weights with their moving averages, if there are any, inside the block."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def restart_averages(self) -> None:
        for average, variable in zip(self.averages, self.variables):
            average.assign(variable)

    def _exchange(self) -> None:
        for average, variable in zip(self.averages, self.variables):
            value = variable.numpy()
            variable.assign(average)
            average.assign(value)

    def _average_decay(self, updates: tf.Tensor) -> tf.Tensor:
        # Lower than ema_decay at first, so that the random initial weights are soon forgotten. This is the rule of
        # tf.train.ExponentialMovingAverage with num_updates, including the current update.
        return tf.minimum(self.hparams.ema_decay, (1.0 + updates) / (10.0 + updates))


def state_name(variable: keras.Variable) -> str:
    """Returns a weight's name as it appears in the names of the optimizer state."""
    return variable.path.replace("/", "_")


def _move_average(average: tf.Variable, variable: tf.Variable, share: tf.Tensor, good: tf.Tensor | None) -> None:
    change = share * (average - variable)
    average.assign_sub(change if good is None else tf.where(good, change, 0.0))
