"""Dropout as a function of its random numbers."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from support.seeds import seeds_of

from t2t_lite.layers.dropout import Dropout


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_elements_are_kept_by_their_numbers_and_scaled_to_keep_the_mean(rate, dtype):
    x, layer, seeds, same = ops.ones((500, 1000), dtype), Dropout(rate, dtype=dtype), seeds_of(3, 4), seeds_of(3, 4)
    for _ in range(2):  # two places, which have different numbers
        result = np.array(ops.cast(layer(x, seeds=seeds), "float32"))
        np.testing.assert_array_equal(result != 0.0, np.array(same.uint16_like(x)) >= round(rate * 2**16))
    # bfloat16 has 8 significant bits.
    tolerance = {"float32": 1e-4, "bfloat16": 2.0**-8}[dtype]
    np.testing.assert_allclose(np.unique(result[result != 0.0]), [1 / (1 - rate)], rtol=tolerance)
    deviation = (rate / (1 - rate) / result.size) ** 0.5
    assert abs(result.mean() - 1.0) < 4 * deviation + tolerance


def test_the_gradient_flows_through_kept_elements_only():
    x = tf.ones((200, 500))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = Dropout(0.3)(x, seeds=seeds_of())
    np.testing.assert_array_equal(tape.gradient(y, x), y)


def test_without_seeds_or_at_rate_zero_the_input_is_unchanged():
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")
    np.testing.assert_array_equal(Dropout(0.5)(x), x)
    np.testing.assert_array_equal(Dropout(0.0)(x, seeds=seeds_of()), x)
