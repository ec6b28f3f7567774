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


@pytest.mark.parametrize("causal", [False, True])
def test_more_padding_changes_nothing(causal, paper):
    layer = built(Recurrent(HIDDEN, causal), paper, HIDDEN)
    x = random(1, LENGTH, HIDDEN)
    alone = np.array(layer(x))
    padded = np.pad(x, ((0, 0), (0, 4), (0, 0)), constant_values=3.0)
    result = np.array(layer(padded, padding_mask((LENGTH,), LENGTH + 4)))
    np.testing.assert_allclose(result[:, :LENGTH], alone, atol=1e-6)


def test_only_a_causal_layer_is_blind_to_later_positions(paper):
    x = random(1, LENGTH, HIDDEN)
    changed = x.copy()
    changed[0, 3] += 1.0
    causal, both = (built(Recurrent(HIDDEN, causal), paper, HIDDEN) for causal in (True, False))
    change = np.abs(np.array(causal(changed)) - np.array(causal(x)))[0].max(axis=1)
    assert (change[:3] < 1e-6).all() and (change[3:] > 1e-4).all()
    assert (np.abs(np.array(both(changed)) - np.array(both(x)))[0].max(axis=1) > 1e-4).all()


def test_stepping_equals_one_pass(paper, stepped):
    layer = built(Recurrent(HIDDEN, causal=True), paper, HIDDEN)
    x = random(3, LENGTH, HIDDEN)
    for room in (0, 3):
        np.testing.assert_allclose(stepped(layer, x, room), layer(x), atol=1e-5)


def test_the_cache_is_one_state_for_any_sentence_length(paper):
    layer = built(Recurrent(HIDDEN, causal=True), paper, HIDDEN)
    assert layer.start_cache(3, 2, 100).shape == (3, 2, HIDDEN)


def test_steps_follow_the_beam_ancestry(paper, follows_its_ancestors):
    follows_its_ancestors(built(Recurrent(HIDDEN, causal=True), paper, HIDDEN), HIDDEN)


@pytest.mark.parametrize("causal", [False, True])
def test_batch_and_length_may_be_unknown_in_a_graph(causal, paper, traced):
    layer = built(Recurrent(HIDDEN, causal), paper, HIDDEN)
    run = traced(layer, HIDDEN)
    for rows, length in ((3, LENGTH), (1, 1)):
        x, mask = random(rows, length, HIDDEN), padding_mask(LENGTHS[:rows], length)
        np.testing.assert_allclose(run(x, mask), layer(x, mask), atol=1e-6)


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


def test_bfloat16_is_close_to_float32_in_one_pass_and_in_steps(paper, stepped):
    exact, layer = (
        built(Recurrent(HIDDEN, True, dtype=dtype), paper, HIDDEN) for dtype in ("float32", "mixed_bfloat16")
    )
    x = random(2, LENGTH, HIDDEN)
    result = layer(x)
    assert result.dtype == "bfloat16"
    # 8 significant bits; states lie between -1 and 1.
    np.testing.assert_allclose(tf.cast(result, "float32"), exact(x), atol=0.06)
    np.testing.assert_allclose(stepped(layer, tf.cast(x, "bfloat16")), exact(x), atol=0.06)
