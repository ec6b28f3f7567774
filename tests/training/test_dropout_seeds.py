"""Random numbers of rows, however they are distributed: the definition of Philox, whose blocks never repeat."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.training.loss import DropoutSeeds

MASK = 2**64 - 1


def philox(counter, key):
    """Philox4x32-10 of Salmon et al. 2011, figure 4, on Python ints: four 32-bit numbers."""
    words = [counter >> (32 * i) & 0xFFFFFFFF for i in range(4)]
    low, high = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        products = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        first, third = products[1] >> 32 ^ words[1] ^ low, products[0] >> 32 ^ words[3] ^ high
        words = [first, products[1] & 0xFFFFFFFF, third, products[0] & 0xFFFFFFFF]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return words


def expected(seed, step, place, row, size):
    """The numbers of a row with the given number of elements, by the definition."""
    blocks = -(-size // 8)
    key = ((seed << 32) + step) & MASK
    words = [word for block in range(blocks) for word in philox((place << 64) + row * blocks + block, key)]
    return np.array([half for word in words for half in (word & 0xFFFF, word >> 16)])[:size]


SEEDS = [(1, 2, 0), (5, 0, 7), (2**31 - 1, 2**32 - 1, 12345), (2**32 - 1, 9, 3)]


@pytest.mark.parametrize(("seed", "step", "row"), SEEDS)
# Row sizes that are and are not multiples of a block; the first dimension may be larger than the number of rows.
@pytest.mark.parametrize("shape", [(2, 8), (2, 21), (2, 5, 16), (2 * 5, 16), (2, 2, 3, 3), (2, 1)])
def test_numbers_of_a_row_follow_the_definition_of_philox(seed, step, row, shape):
    seeds = DropoutSeeds(seed, step, row, rows=2)
    for place in (1, 2):
        numbers = np.array(seeds.uint16_like(tf.zeros(shape)))
        assert numbers.dtype == np.uint16 and numbers.shape == shape
        for offset, found in enumerate(numbers.reshape(2, -1)):
            np.testing.assert_array_equal(found, expected(seed, step, place, row + offset, found.size))


@pytest.mark.parametrize("width", [3, 16])
def test_the_step_and_sizes_may_be_unknown_in_a_graph(width):
    @tf.function(input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([None, None, width])], autograph=False)
    def draw(step, x):
        return DropoutSeeds(3, step, 2, tf.shape(x)[0]).uint16_like(x)

    for step, rows, length in ((4, 2, 5), (5, 4, 8)):
        x = tf.zeros([rows, length, width])
        np.testing.assert_array_equal(draw(step, x), DropoutSeeds(3, step, 2, rows).uint16_like(x))
