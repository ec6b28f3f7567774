"""Random numbers of rows: independent of how rows are distributed, and never repeated."""

import itertools

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
        words = [
            products[1] >> 32 ^ words[1] ^ low,
            products[1] & 0xFFFFFFFF,
            products[0] >> 32 ^ words[3] ^ high,
            products[0] & 0xFFFFFFFF,
        ]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return words


def expected(seed, step, place, row, size):
    """The numbers of a row with the given number of elements, by the definition."""
    blocks = -(-size // 8)
    key = ((seed << 32) + step) & MASK
    words = [word for block in range(blocks) for word in philox((place << 64) + row * blocks + block, key)]
    return np.array([half for word in words for half in (word & 0xFFFF, word >> 16)])[:size]


@pytest.mark.parametrize(
    ("seed", "step", "row"), [(1, 2, 0), (5, 0, 7), (2**31 - 1, 2**32 - 1, 12345), (2**32 - 1, 9, 3)]
)
@pytest.mark.parametrize("size", [8, 24, 21])
def test_numbers_follow_the_definition_of_philox(seed, step, row, size):
    seeds = DropoutSeeds(seed, step, row, rows=2)
    for place in (1, 2):
        numbers = np.array(seeds.uint16_like(tf.zeros((2, size))))
        assert numbers.dtype == np.uint16
        for offset in range(2):
            np.testing.assert_array_equal(numbers[offset], expected(seed, step, place, row + offset, size))


# Row sizes that are and are not multiples of a block; the first dimension may be larger than the number of rows.
@pytest.mark.parametrize(
    "shape_of", [lambda n: (n, 5, 16), lambda n: (n * 5, 16), lambda n: (n, 2, 3, 3), lambda n: (n, 1)]
)
def test_each_row_gets_the_same_numbers_for_any_division_of_the_batch(shape_of):
    rows = 12

    def numbers_of(first, end):
        seeds = DropoutSeeds(3, 4, first, end - first)
        return np.array(seeds.uint16_like(tf.zeros(shape_of(end - first)))).reshape(end - first, -1)

    whole = numbers_of(0, rows)
    for cuts in ((0, 12), (0, 5, 12), (0, 1, 2, 7, 12), range(13)):
        parts = [numbers_of(first, end) for first, end in itertools.pairwise(cuts)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("width", [3, 16])
def test_sizes_may_be_unknown_in_a_graph(width):
    @tf.function(input_signature=[tf.TensorSpec([None, None, width])], autograph=False)
    def draw(x):
        return DropoutSeeds(3, 4, 2, tf.shape(x)[0]).uint16_like(x)

    for rows, length in ((2, 5), (4, 8)):
        x = tf.zeros([rows, length, width])
        np.testing.assert_array_equal(draw(x), DropoutSeeds(3, 4, 2, rows).uint16_like(x))


def test_steps_rows_and_places_have_distinct_random_streams():
    # 4 steps, 2 replicas of 3 micro-batches of 2 rows, 5 places: no block of 8 numbers occurs twice.
    blocks = set()
    count = 0
    for step, first_row in itertools.product(range(4), range(0, 12, 2)):
        seeds = DropoutSeeds(1, step, first_row, 2)
        for _ in range(5):
            drawn = np.array(seeds.uint16_like(tf.zeros((2, 4, 8)))).reshape(-1, 8)
            blocks.update(map(bytes, drawn))
            count += len(drawn)
    assert count == 4 * 6 * 5 * 8 == len(blocks)
