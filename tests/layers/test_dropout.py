"""Dropout as a function of its random numbers."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from support.seeds import seeds_of

from t2t_lite.layers.dropout import Dropout
from t2t_lite.training.loss import DropoutSeeds

SHAPE = (200, 500)


def kept(layer, call_seeds, shape=SHAPE, dtype="float32"):
    """Returns which elements of a tensor of ones the layer keeps, as bool."""
    return np.array(ops.cast(layer(ops.ones(shape, dtype), seeds=call_seeds), "float32")) != 0.0


def test_the_same_seed_gives_the_same_masks_at_each_place():
    layer = Dropout(0.3)
    first, again = seeds_of(5, 6), seeds_of(5, 6)
    for _ in range(3):
        np.testing.assert_array_equal(kept(layer, first), kept(layer, again))


def test_the_step_may_be_traced():
    layer = Dropout(0.3)
    traced = tf.function(lambda step: layer(tf.ones(SHAPE), seeds=DropoutSeeds(1, step, 0, 1)))
    for step in (2, 3):
        result = traced(tf.constant(step, tf.int64)).numpy()
        np.testing.assert_array_equal(result != 0.0, kept(layer, seeds_of(1, step)))


@pytest.mark.parametrize("other", [(1, 3), (2, 2), (2, 1), (1, 2**31), (2**31 - 1, 2)])
def test_different_seeds_and_steps_give_independent_masks(other):
    layer = Dropout(0.3)
    assert_independent(kept(layer, seeds_of(1, 2)), kept(layer, seeds_of(*other)), 0.7)


def test_different_places_of_one_pass_give_independent_masks():
    layer, one_pass = Dropout(0.3), seeds_of()
    assert_independent(kept(layer, one_pass), kept(layer, one_pass), 0.7)


def test_neighbouring_elements_are_independent():
    mask = kept(Dropout(0.3), seeds_of())
    assert_independent(mask[:, 0::2], mask[:, 1::2], 0.7)  # the two halves of a random word
    assert_independent(mask[:, 1:-1:2], mask[:, 2::2], 0.7)


def assert_independent(one, other, keep_rate):
    """Asserts that both masks keep an element with probability keep_rate ** 2, within four standard deviations."""
    expected = keep_rate**2
    deviation = (expected * (1 - expected) / one.size) ** 0.5
    assert abs((one & other).mean() - expected) < 4 * deviation


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_the_kept_fraction_is_one_minus_the_rate_in_every_float_type(rate, dtype):
    mask = kept(Dropout(rate, dtype=dtype), seeds_of(3, 4), (500, 1000), dtype)
    deviation = (rate * (1 - rate) / mask.size) ** 0.5
    assert abs(mask.mean() - (1 - rate)) < 4 * deviation


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_kept_elements_are_scaled_to_keep_the_mean(rate, dtype):
    x = ops.ones((500, 1000), dtype)
    result = np.array(ops.cast(Dropout(rate, dtype=dtype)(x, seeds=seeds_of()), "float32"))
    scales = np.unique(result[result != 0.0])
    # bfloat16 has 8 significant bits.
    tolerance = {"float32": 1e-4, "bfloat16": 2.0**-8}[dtype]
    np.testing.assert_allclose(scales, [1 / (1 - rate)], rtol=tolerance)
    deviation = (rate / (1 - rate) / result.size) ** 0.5
    assert abs(result.mean() - 1.0) < 4 * deviation + tolerance


def test_the_gradient_flows_through_kept_elements_only():
    x = tf.ones(SHAPE)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = Dropout(0.3)(x, seeds=seeds_of())
    np.testing.assert_array_equal(tape.gradient(y, x), y)


def test_without_seeds_or_at_rate_zero_the_input_is_unchanged():
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")
    np.testing.assert_array_equal(Dropout(0.5)(x), x)
    np.testing.assert_array_equal(Dropout(0.0)(x, seeds=seeds_of()), x)


# Training without seeds uses numbers of Keras' own generator.
