"""Gated recurrent units against a loop over positions and sentences."""

import numpy as np
import pytest
import tensorflow as tf
from support.layers import built, random

from t2t_lite.layers.recurrent import GatedUnits, Recurrent

HIDDEN, LENGTH = 6, 7
LENGTHS = (7, 4, 1)


def padding_mask(lengths=LENGTHS, length=LENGTH):
    return np.array([[position < own for position in range(length)] for own in lengths])[:, None, None, :]


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def states_by_loop(units, x):
    """h = z * h + (1 - z) * tanh(x W_c + b_c + r * (h U_c)), for one sentence without padding, forwards."""
    kernel, bias, recurrent = (
        np.array(variable).astype(np.float64) for variable in (units.kernel, units.bias, units.recurrent_kernel)
    )
    width = recurrent.shape[0]
    z, r, c = (slice(i * width, (i + 1) * width) for i in range(3))
    h, states = np.zeros(width), []
    for inputs in x:
        update = sigmoid(inputs @ kernel[:, z] + bias[z] + h @ recurrent[:, z])
        reset = sigmoid(inputs @ kernel[:, r] + bias[r] + h @ recurrent[:, r])
        candidate = np.tanh(inputs @ kernel[:, c] + bias[c] + reset * (h @ recurrent[:, c]))
        h = update * h + (1 - update) * candidate
        states.append(h)
    return np.array(states)


def expected_states(layer, x):
    """Both directions of one sentence, concatenated; one direction for a causal layer."""
    forward, *backward = layer.directions
    parts = [states_by_loop(forward, x)]
    parts += [states_by_loop(units, x[::-1])[::-1] for units in backward]
    return np.concatenate(parts, axis=1)


def test_units_follow_the_equations_in_both_directions(paper):
    x = random(2, LENGTH, HIDDEN)
    valid = np.ones((2, LENGTH), bool)
    for backward in (False, True):
        units = built(GatedUnits(4, backward=backward), paper, HIDDEN)
        result = np.array(units(x, valid))
        for row in range(2):
            own = x[row, ::-1] if backward else x[row]
            expected = states_by_loop(units, own.astype("float64"))
            np.testing.assert_allclose(result[row], expected[::-1] if backward else expected, atol=1e-5)


@pytest.mark.parametrize("hidden_size", [6, 7])
@pytest.mark.parametrize("causal", [False, True])
def test_a_padded_sentence_gives_the_result_of_a_loop_over_it_alone(causal, hidden_size, paper):
    layer = built(Recurrent(hidden_size, causal), paper, hidden_size)
    x = random(len(LENGTHS), LENGTH, hidden_size)
    result = np.array(layer(x, padding_mask()))
    assert result.shape == x.shape
    assert np.isfinite(result).all()
    for row, length in enumerate(LENGTHS):
        expected = expected_states(layer, x[row, :length].astype("float64"))
        np.testing.assert_allclose(result[row, :length], expected, atol=1e-5)


def test_the_cache_is_one_state_for_any_sentence_length(paper):
    layer = built(Recurrent(HIDDEN, causal=True), paper, HIDDEN)
    assert layer.start_cache(3, 2, 100).shape == (3, 2, HIDDEN)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_every_variable_is_trainable_and_gets_a_gradient(causal, paper):
    layer = built(Recurrent(HIDDEN, causal), paper, HIDDEN)
    width = HIDDEN if causal else HIDDEN // 2
    shapes = [(HIDDEN, 3 * width), (3 * width,), (width, 3 * width)] * (1 if causal else 2)
    assert sorted(tuple(variable.shape) for variable in layer.variables) == sorted(shapes)
    assert layer.variables == layer.trainable_variables  # no state of a random generator
    x = random(2, LENGTH, HIDDEN)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x) ** 2)
        return tape.gradient(loss, [variable.value for variable in layer.trainable_variables])

    for gradient in gradients():
        assert np.isfinite(gradient).all() and (np.abs(gradient) > 0).any()
