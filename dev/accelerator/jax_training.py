"""Training and search under JAX, for measurements on machines without TensorFlow.

`Steps` makes the same updates as `training.step`, on all devices, several steps per call. This is not a second trainer:
it has no checkpoints, reports, evaluation or resuming, and only the optimizer adam.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.layers.beam_ancestry import initial_ancestry, next_ancestry
from t2t_lite.layers.cross_entropy import CrossEntropySums, cross_entropy, linear_cross_entropy
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.schedules import learning_rate

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


# Philox 4x32 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 4.3).
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_NUMBERS = 8  # 16-bit numbers per block


class PhiloxSeeds:
    """Generates the random numbers of one step's dropout, for contiguous rows of the global batch.

    Args:
      random_seed: the seed of the training run; its last 32 bits are used.
      step: the number of the step, counted from 0, int32 scalar.
      first_row: the index of the first row in the global batch, int32 scalar.
      rows: number of rows of the batch.
    """

    def __init__(self, random_seed: int, step: jax.Array, first_row: jax.Array | int, rows: int) -> None:
        self._key = (step.astype(jnp.uint32), jnp.uint32(random_seed & 0xFFFFFFFF))
        self._first_row, self._rows = first_row, rows
        self._places = 0

    def uint16_like(self, x: jax.Array) -> jax.Array:
        """Returns the numbers for the next dropout in the model: uint16 with the shape of x, uniform from 0 to 65535.

        x consists of consecutive rows of equal size.
        """
        self._places += 1
        of_row = x.size // self._rows
        blocks = -(-of_row // _NUMBERS)
        # The counter's first 64 bits are the block number. A batch has fewer than 2**32 blocks.
        counter = jnp.arange(self._rows * blocks, dtype=jnp.uint32) + jnp.asarray(self._first_row * blocks, jnp.uint32)
        zeros = jnp.zeros_like(counter)
        words = philox((counter, zeros, zeros + jnp.uint32(self._places), zeros), self._key)
        # Without the barrier, XLA recomputes all rounds for each of the eight numbers of a block.
        words = jnp.stack(jax.lax.optimization_barrier(words), axis=-1)
        numbers = jax.lax.bitcast_convert_type(words, jnp.uint16)  # [blocks of all rows, 4, 2]
        if of_row % _NUMBERS:
            numbers = numbers.reshape(self._rows, blocks * _NUMBERS)[:, :of_row]
        return numbers.reshape(x.shape)


def philox(counter: Sequence[jax.Array], key: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """Returns the four random words of each block, uint32 like the counter's four words. The key has two words."""
    (first, second, third, fourth), (key0, key1) = counter, key
    for _ in range(_ROUNDS):
        high0, low0 = _product(_MULTIPLIERS[0], first)
        high1, low1 = _product(_MULTIPLIERS[1], third)
        first, second, third, fourth = high1 ^ second ^ key0, low1, high0 ^ fourth ^ key1, low0
        key0, key1 = key0 + jnp.uint32(_KEY_STEPS[0]), key1 + jnp.uint32(_KEY_STEPS[1])
    return first, second, third, fourth


def _product(factor: int, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the upper and lower 32 bits of factor * x. Uses 16-bit products, because JAX lacks 64 bits by default."""
    upper, lower = jnp.uint32(factor >> 16), jnp.uint32(factor & 0xFFFF)
    x_upper, x_lower = x >> 16, x & 0xFFFF
    low, mixed0, mixed1 = lower * x_lower, lower * x_upper, upper * x_lower
    carry = (low >> 16) + (mixed0 & 0xFFFF) + (mixed1 & 0xFFFF)
    return upper * x_upper + (mixed0 >> 16) + (mixed1 >> 16) + (carry >> 16), jnp.uint32(factor) * x


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


def beam_search(model: Seq2SeqModel, inputs: jax.Array, beam_size: int, num_steps: int) -> tuple[jax.Array, jax.Array]:
    """Returns the best outputs, each of `num_steps` tokens, and their log-probabilities.

    Args:
      model: a built model.
      inputs: int32 [batch, source length], padded with 0.
      beam_size: number of hypotheses per sentence.
      num_steps: number of tokens.

    Returns:
      (int32 [batch, beam, num_steps], their log-probabilities, float32 [batch, beam]), in descending order.
    """
    batch = inputs.shape[0]
    encoded_source, state = model.start_decoding(inputs, beam_size, num_steps)
    ids = jnp.zeros((batch, beam_size), jnp.int32)
    # All hypotheses are equal at first, so only the first one counts.
    scores = jnp.broadcast_to(jnp.where(jnp.arange(beam_size) == 0, 0.0, -jnp.inf), (batch, beam_size))
    outputs = jnp.zeros((batch, beam_size, num_steps), jnp.int32)
    parents = jnp.broadcast_to(jnp.arange(beam_size, dtype=jnp.int32), (batch, beam_size))
    ancestry = initial_ancestry(batch, beam_size, num_steps)

    def step(position: jax.Array, carry: tuple) -> tuple:
        ids, scores, outputs, parents, ancestry, state = carry
        ancestry = next_ancestry(ancestry, parents, position)
        logits, state, _ = model.decode_step(ids, position, encoded_source, state, ancestry)
        totals = scores[:, :, None] + jax.nn.log_softmax(logits.astype(jnp.float32))
        scores, places = jax.lax.top_k(totals.reshape(batch, -1), beam_size)
        parents, ids = (part.astype(jnp.int32) for part in jnp.divmod(places, logits.shape[-1]))
        outputs = jnp.take_along_axis(outputs, parents[:, :, None], axis=1).at[:, :, position].set(ids)
        return ids, scores, outputs, parents, ancestry, state

    carry = jax.lax.fori_loop(0, num_steps, step, (ids, scores, outputs, parents, ancestry, state))
    return carry[2], carry[1]
