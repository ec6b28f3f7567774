"""Weight updates: by Adam with TensorFlow's fused kernel, or by any other Keras optimizer."""

import collections
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.training.optimizers.base import Optimizer, state_name
from t2t_lite.training.schedule import learning_rate


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
        variables = _by_name(rule)
        self._updates = variables["updates"]
        self.state |= {f"{prefix}.{name}": variable for name, variable in variables.items()}

    def _make_update(self, made: tf.Tensor, rate: tf.Tensor, good: tf.Tensor | None) -> Callable[..., None]:
        def update(variable: tf.Variable, gradient: tf.Tensor) -> None:
            self._rule.update_step(gradient, variable, rate)

        return update

    def count(self, good: tf.Tensor) -> None:
        """Counts a step; the rule counts only updates, because its bias corrections depend on their number."""
        super().count(good)
        self._updates.assign_add(tf.cast(good, tf.int64))


def _by_name(rule: keras.optimizers.Optimizer) -> dict[str, tf.Variable]:
    """Returns a rule's variables by name. The names do not depend on how many rules the process has created."""
    variables, seen = {}, collections.Counter()
    for variable in rule.variables:
        name = (
            "updates" if variable is rule.iterations else variable.path.removeprefix(f"{rule.name}/").replace("/", "_")
        )
        # Adafactor gives the same name to several variables.
        variables[f"{name}.{seen[name]}" if seen[name] else name] = variable.value
        seen[name] += 1
    return variables


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

    def _make_update(self, made: tf.Tensor, rate: tf.Tensor, good: tf.Tensor | None) -> Callable[..., None]:
        rule = self._rule
        powers = [tf.pow(beta, made + 1.0) for beta in (rule.beta_1, rule.beta_2)]
        beta1, beta2, epsilon = (tf.constant(value) for value in (rule.beta_1, rule.beta_2, rule.epsilon))
        if good is not None:  # betas of 1 leave the moments unchanged
            beta1, beta2 = (tf.where(good, beta, 1.0) for beta in (beta1, beta2))

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
