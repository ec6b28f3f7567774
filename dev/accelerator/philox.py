"""Random numbers for dropout under JAX, equal to those of `training.step.dropout_seeds.DropoutSeeds`."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

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
