"""Gated recurrent units against a loop over positions and sentences."""

import numpy as np
import pytest
from support.layers import built, random

from t2t_lite.layers.recurrent import Recurrent

LENGTH = 7
LENGTHS = (7, 4, 1)


PADDING_MASK = (np.arange(LENGTH) < np.array(LENGTHS)[:, None])[:, None, None]


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


@pytest.mark.parametrize("hidden_size", [6, 7])
@pytest.mark.parametrize("causal", [False, True])
def test_a_padded_sentence_gives_the_result_of_a_loop_over_it_alone(causal, hidden_size, paper):
    layer = built(Recurrent(hidden_size, causal), paper, hidden_size)
    x = random(len(LENGTHS), LENGTH, hidden_size)
    result = np.array(layer(x, PADDING_MASK))
    assert result.shape == x.shape
    assert np.isfinite(result).all()
    for row, length in enumerate(LENGTHS):
        expected = expected_states(layer, x[row, :length].astype("float64"))
        np.testing.assert_allclose(result[row, :length], expected, atol=1e-5)
