"""Optimizers: their common base, Adam with TensorFlow's fused kernel, and any other Keras optimizer."""

import abc
import collections
import contextlib
from collections.abc import Callable, Iterator, Sequence

import keras
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.registry import OPTIMIZERS
from t2t_lite.schedules import learning_rate

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

    _can_be_masked = False  # whether `_make_update` takes `is_finite`; otherwise `apply` branches

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
        is_finite: tf.Tensor | None = None,
    ) -> None:
        """Makes one update. Call it in cross-replica context.

        Args:
          gradients: for each variable, the gradient of the global batch's loss times the loss scale, summed over
            replicas.
          loss_scale: float32 scalar.
          norm: the global norm of the gradients of the unscaled loss, float32 scalar; clip_norm limits it.
          is_finite: bool scalar; if false, nothing changes. The gradients must be finite even then. None: true.
        """
        if is_finite is not None and not self._can_be_masked:

            def apply() -> int:
                self.apply(strategy, gradients, loss_scale, norm)
                return 0

            tf.cond(is_finite, apply, lambda: 0)
            return
        made = tf.cast(self.iterations - self.skipped, tf.float32)  # updates so far
        rate = learning_rate(self.iterations + 1, self.hparams)
        if is_finite is not None:
            rate, norm = tf.where(is_finite, rate, 0.0), tf.where(is_finite, norm, 0.0)
        divisor = None if self.loss_scale is None else loss_scale  # None: the gradients stay unchanged
        if self.hparams.clip_norm:
            excess = tf.maximum(norm / self.hparams.clip_norm, 1.0)
            divisor = excess if divisor is None else divisor * excess
        update = self._make_update(made, rate, is_finite)

        def update_one(variable: tf.Variable, gradient: tf.Tensor, *slots: tf.Variable) -> None:
            if self._weight_decay and variable.shape.rank > 1:
                variable.assign_sub(variable * (self._weight_decay * rate))
            update(variable, gradient if divisor is None else gradient / divisor, *slots)

        for variable, *others in zip(self.variables, gradients, *self._slots()):
            strategy.extended.update(variable, update_one, args=others, group=False)
        # The decay is lower than ema_decay at first, so that the random initial weights are soon forgotten. This is the
        # rule of tf.train.ExponentialMovingAverage with num_updates, including the current update.
        updates = made + 1.0
        share = 1.0 - tf.minimum(self.hparams.ema_decay, (1.0 + updates) / (10.0 + updates))
        for average, variable in zip(self.averages, self.variables):
            strategy.extended.update(average, _move_average, args=(variable, share, is_finite), group=False)

    def loss_scale_value(self) -> tf.Tensor:
        """Returns the loss scale, float32 scalar; 1 without loss scaling."""
        return tf.constant(1.0) if self.loss_scale is None else self.loss_scale.read_value()

    @abc.abstractmethod
    def _make_update(self, made: tf.Tensor, rate: tf.Tensor, is_finite: tf.Tensor | None) -> Callable[..., None]:
        """Returns a function (variable, gradient, *slots) that updates a variable and its slots on one device.

        `made` is the number of updates so far, `rate` the learning rate, both float32 scalars. `is_finite`, see
        `apply`, is None unless the update can be masked; if it is false, the rate is 0.
        """

    def _slots(self) -> Sequence[Sequence[tf.Variable]]:
        """Returns the slots, such as moments: lists of variables, each with one variable per weight."""
        return ()

    def count(self, is_finite: tf.Tensor) -> None:
        """Counts a step and adapts the loss scale; `is_finite` is whether the loss and gradients were finite.

        Call it in cross-replica context, after `apply` if that was called.
        """
        self.iterations.assign_add(1)
        self.skipped.assign_add(tf.cast(tf.logical_not(is_finite), tf.int64))
        if self.loss_scale is None:
            return
        good_steps = tf.where(is_finite, self._good_steps + 1, 0)
        grows = good_steps >= LOSS_SCALE_GROWTH_STEPS
        scale = tf.where(is_finite, tf.where(grows, 2.0, 1.0) * self.loss_scale, tf.maximum(self.loss_scale / 2.0, 1.0))
        self.loss_scale.assign(scale)
        self._good_steps.assign(tf.where(grows, tf.zeros((), tf.int64), good_steps))

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


def state_name(variable: keras.Variable) -> str:
    """Returns a weight's name as it appears in the names of the optimizer state."""
    return variable.path.replace("/", "_")


def _move_average(average: tf.Variable, variable: tf.Variable, share: tf.Tensor, is_finite: tf.Tensor | None) -> None:
    change = share * (average - variable)
    average.assign_sub(change if is_finite is None else tf.where(is_finite, change, 0.0))


class KerasOptimizer(Optimizer):
    """Updates each variable with the `update_step` of a new Keras optimizer, the rule.

    Keras itself would sum the gradients of all devices again, and control the steps. Here, the rule only updates
    variables; the trainer applies the rule's weight_decay, skips steps, counts updates and sets the learning rate.
    """

    def __init__(
        self, keras_variables: Sequence[keras.Variable], hparams: HParams, rule: keras.optimizers.Optimizer
    ) -> None:
        prefix = type(rule).__name__.lower()
        super().__init__(keras_variables, hparams, rule.weight_decay or 0.0, prefix)
        self._rule = rule
        # This keeps Keras' learning rate variable out of the state.
        rule.learning_rate = lambda: learning_rate(self.iterations + 1, hparams)
        rule.build(list(keras_variables))
        seen = collections.Counter()
        for variable in rule.variables:
            # The names must not depend on how many rules the process has created.
            name = variable.path.removeprefix(f"{rule.name}/").replace("/", "_")
            name = f"{prefix}.{'updates' if variable is rule.iterations else name}"
            # Adafactor gives the same name to several variables.
            self.state[f"{name}.{seen[name]}" if seen[name] else name] = variable.value
            seen[name] += 1
        self._updates = self.state[f"{prefix}.updates"]

    def _make_update(self, made: tf.Tensor, rate: tf.Tensor, is_finite: tf.Tensor | None) -> Callable[..., None]:
        def update(variable: tf.Variable, gradient: tf.Tensor) -> None:
            self._rule.update_step(gradient, variable, rate)

        return update

    def count(self, is_finite: tf.Tensor) -> None:
        """Counts a step; the rule counts only updates, because its bias corrections depend on their number."""
        super().count(is_finite)
        self._updates.assign_add(tf.cast(is_finite, tf.int64))


class FusedAdam(Optimizer):
    """Adam (Kingma and Ba 2015), or AdamW (Loshchilov and Hutter 2019) if the rule has a weight decay."""

    _can_be_masked = True

    def __init__(
        self, keras_variables: Sequence[keras.Variable], hparams: HParams, rule: keras.optimizers.Adam
    ) -> None:
        super().__init__(keras_variables, hparams, rule.weight_decay or 0.0, "adam")
        self._rule = rule
        self._momentums, self._velocities = (
            [tf.Variable(tf.zeros(variable.shape), trainable=False) for variable in self.variables] for _ in range(2)
        )
        names = [state_name(variable) for variable in keras_variables]
        self.state |= {f"adam.{name}_momentum": slot for name, slot in zip(names, self._momentums)}
        self.state |= {f"adam.{name}_velocity": slot for name, slot in zip(names, self._velocities)}

    def _slots(self) -> Sequence[Sequence[tf.Variable]]:
        return self._momentums, self._velocities

    def _make_update(self, made: tf.Tensor, rate: tf.Tensor, is_finite: tf.Tensor | None) -> Callable[..., None]:
        rule = self._rule
        powers = [tf.pow(beta, made + 1.0) for beta in (rule.beta_1, rule.beta_2)]
        beta1, beta2, epsilon = (tf.constant(value) for value in (rule.beta_1, rule.beta_2, rule.epsilon))
        if is_finite is not None:  # betas of 1 leave the moments unchanged
            beta1, beta2 = (tf.where(is_finite, beta, 1.0) for beta in (beta1, beta2))

        def update(variable: tf.Variable, gradient: tf.Tensor, momentum: tf.Variable, velocity: tf.Variable) -> None:
            # The fused kernel makes one pass over the four arrays; separate operations would need about sixteen.
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

        return update


# Methods of Keras optimizers that handle all variables. An optimizer that overrides one of them cannot update each
# variable separately.
OF_ALL_VARIABLES = ("apply", "_backend_update_step", "_apply_weight_decay")


# Arguments of Keras optimizers that the trainer does not use, and the settings that replace them.
_SETTINGS = {
    **dict.fromkeys(("clipnorm", "clipvalue", "global_clipnorm"), "clip_norm"),
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
    # The public `learning_rate` is only the next value of a schedule.
    if isinstance(rule._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
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
    if any(getattr(type(rule), name, None) is not getattr(base, name, None) for name in OF_ALL_VARIABLES):
        raise UserError(
            f"{what} is of type {type(rule).__name__}, which does not update each variable separately; register one "
            f"that overrides only build and update_step"
        )
