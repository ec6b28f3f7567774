"""Optimizer steps under JAX: the same update as `training.step`, on all devices, several steps per call."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.jax.philox import PhiloxSeeds
from t2t_lite.layers.cross_entropy import CrossEntropySums, cross_entropy, linear_cross_entropy
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.training.schedule import learning_rate

_DEVICES = "devices"  # the axis of the mesh
# Accelerators need large matrix products. With a vocabulary of 37,000, the logits of a chunk take 1.2 GB.
MAX_CHUNK = 8192
# The only values that steps under JAX support for these settings.
_UNUSED = {
    "clip_norm": 0.0,
    "weight_decay": 0.0,
    "ema_decay": 0.0,
    "optimizer": "adam",
    "rdrop_alpha": 0.0,
    "bpe_dropout": 0.0,
    "pair_concatenation": 0.0,
}


class TrainState(NamedTuple):
    """The state that a step updates: weights, Adam's moments (float32, in the model's order) and the step count."""

    weights: list[jax.Array]
    momentums: list[jax.Array]
    velocities: list[jax.Array]
    step: jax.Array  # int32 scalar


class Steps:
    """Runs optimizer steps on a model: `steps(state, inputs, targets)` returns (state, figures).

    The rows of a batch are split among the devices. The new state reuses the memory of the given state.

    Args:
      model: a built model; its own weights do not change.
      random_seed: the seed for dropout; None: no dropout.
      max_chunk: the number of positions whose logits exist at a time.
      devices: the devices to use; None: all.

    Call arguments:
      state: the state from `start` or the last call.
      inputs, targets: int32 [steps, rows, length], padded with 0; the number of devices must divide the number of rows.

    Returns:
      the new state, and float32 [steps, 3]: the label-smoothed and plain cross-entropy per token in nats, and the
      number of target tokens.

    Raises:
      UserError: if these steps do not support the settings.
    """

    def __init__(
        self,
        model: Seq2SeqModel,
        random_seed: int | None = 1,
        max_chunk: int = MAX_CHUNK,
        devices: Sequence[object] | None = None,
    ) -> None:
        _check(model.hparams)
        self._model, self._random_seed, self._max_chunk = model, random_seed, max_chunk
        self.mesh = Mesh(np.array(devices or jax.devices()), (_DEVICES,))
        whole, rows = PartitionSpec(), PartitionSpec(None, _DEVICES)
        several = jax.shard_map(
            self._several, mesh=self.mesh, in_specs=(whole, rows, rows), out_specs=whole, check_vma=False
        )
        self.jitted = jax.jit(several, donate_argnums=0)

    def __call__(
        self, state: TrainState, inputs: np.ndarray | jax.Array, targets: np.ndarray | jax.Array
    ) -> tuple[TrainState, jax.Array]:
        """Starts the steps on the devices and returns before they finish."""
        return self.jitted(state, inputs, targets)

    def start(self) -> TrainState:
        """Returns the state before the first step, with the weights of the model."""
        weights = [jnp.array(variable.value, jnp.float32) for variable in self._model.trainable_variables]
        momentums, velocities = ([jnp.zeros_like(weight) for weight in weights] for _ in range(2))
        state = TrainState(weights, momentums, velocities, jnp.zeros((), jnp.int32))
        return jax.device_put(state, NamedSharding(self.mesh, PartitionSpec()))

    def _several(self, state: TrainState, inputs: jax.Array, targets: jax.Array) -> tuple[TrainState, jax.Array]:
        return jax.lax.scan(self._one, state, (inputs, targets))

    def _one(self, state: TrainState, batch: tuple[jax.Array, jax.Array]) -> tuple[TrainState, jax.Array]:
        """Runs one step on this device's rows of a batch."""
        inputs, targets = batch
        rows = inputs.shape[0]
        seeds = None
        if self._random_seed is not None:
            first_row = jax.lax.axis_index(_DEVICES) * rows
            seeds = PhiloxSeeds(self._random_seed, state.step, first_row, rows)

        def loss(weights: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
            sums = loss_sums(self._model, weights, inputs, targets, seeds, self._max_chunk)
            return sums.smoothed, sums.plain

        (smoothed, plain), gradients = jax.value_and_grad(loss, has_aux=True)(state.weights)
        tokens = jnp.count_nonzero(targets).astype(jnp.float32)
        (smoothed, plain, tokens), gradients = jax.lax.psum(((smoothed, plain, tokens), gradients), _DEVICES)
        with jax.named_scope("optimizer"):
            state = adam(state, [gradient / tokens for gradient in gradients], self._model.hparams)
        return state, jnp.stack([smoothed / tokens, plain / tokens, tokens])


def loss_sums(
    model: Seq2SeqModel,
    weights: Sequence[jax.Array],
    inputs: jax.Array,
    targets: jax.Array,
    seeds: PhiloxSeeds | None,
    max_chunk: int = MAX_CHUNK,
) -> CrossEntropySums:
    """Returns the loss sums of a batch, with `weights` as the model's trainable weights.

    Args:
      model: a built model.
      weights: the weights in the order of model.trainable_variables.
      inputs, targets: int32 [rows, length], padded with 0.
      seeds: the random numbers for dropout; None: no dropout.
      max_chunk: the number of positions whose logits exist at a time.
    """
    labels, smoothing = targets.reshape(-1), model.hparams.label_smoothing
    with keras.StatelessScope(state_mapping=list(zip(model.trainable_variables, weights))):
        factors = model.factors_of_logits(inputs, targets, seeds)
        if factors is None:
            return cross_entropy(model(inputs, targets, seeds=seeds).reshape(-1, model.vocab_size), labels, smoothing)
        x, weight = factors
        with jax.named_scope("loss"):
            return linear_cross_entropy(x.reshape(-1, x.shape[-1]), weight, labels, smoothing, max_chunk=max_chunk)


def adam(state: TrainState, gradients: Sequence[jax.Array], hparams: HParams) -> TrainState:
    """Returns the state after one update of Adam (section 5.3; Kingma and Ba 2015, the end of section 2)."""
    step = state.step + 1
    beta1, beta2, made = hparams.adam_beta1, hparams.adam_beta2, step.astype(jnp.float32)
    rate = learning_rate(step, hparams) * jnp.sqrt(1.0 - beta2**made) / (1.0 - beta1**made)

    def update(
        weight: jax.Array, momentum: jax.Array, velocity: jax.Array, gradient: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        gradient = gradient.astype(jnp.float32)
        momentum = momentum + (gradient - momentum) * (1.0 - beta1)
        velocity = velocity + (gradient**2 - velocity) * (1.0 - beta2)
        return weight - rate * momentum / (jnp.sqrt(velocity) + hparams.adam_epsilon), momentum, velocity

    updated = [update(*slots) for slots in zip(state.weights, state.momentums, state.velocities, gradients)]
    weights, momentums, velocities = (list(part) for part in zip(*updated))
    return TrainState(weights, momentums, velocities, step)


def _check(hparams: HParams) -> None:
    for name, off in _UNUSED.items():
        if getattr(hparams, name) != off:
            raise UserError(
                f"steps under JAX do not support {name}={getattr(hparams, name)}; set {name}={off}, or train "
                f"with TensorFlow"
            )
    if hparams.precision == "mixed_float16":
        raise UserError("steps under JAX do not support precision=mixed_float16 (no loss scaling); use mixed_bfloat16")
