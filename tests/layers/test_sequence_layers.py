"""Convolutions and gated recurrent units against loops over positions."""

import numpy as np
import pytest
from support.layers import built, random

from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.recurrent import Recurrent

HIDDEN, LENGTH = 5, 9
LENGTHS = (9, 6, 1)
PADDING_MASK = (np.arange(LENGTH) < np.array(LENGTHS)[:, None])[:, None, None]


def offsets(kernel_size, dilation, causal):
    """Offsets of the kernel's elements from the output position."""
    first = -(kernel_size - 1) if causal else -(kernel_size // 2)
    return [dilation * (first + i) for i in range(kernel_size)]


def by_loops(layer, x, places, separable):
    """The convolution of one sentence, float64 [length, hidden], with zeros around it; `places`: see `offsets`."""
    weights = {v.path.split("/")[-1]: np.array(v).astype(np.float64) for v in layer.variables}
    result = np.tile(weights["bias"], (len(x), 1))
    for position in range(len(x)):
        seen = [(k, position + place) for k, place in enumerate(places) if 0 <= position + place < len(x)]
        if separable:
            channels = sum((x[other] * weights["depthwise_kernel"][k, :, 0] for k, other in seen), np.zeros(HIDDEN))
            result[position] += channels @ weights["pointwise_kernel"][0]
        else:
            for k, other in seen:
                result[position] += x[other] @ weights["kernel"][k]
    return result


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize("kernel_size, dilation", [(3, 1), (3, 2), (3, 3), (5, 1), (5, 2), (1, 1)])
def test_each_position_is_a_sum_over_the_kernel(kernel_size, dilation, separable, causal):
    layer = built(Convolution(HIDDEN, causal, kernel_size, separable=separable, dilation=dilation), HIDDEN)
    places = offsets(kernel_size, dilation, causal)
    x = random(len(LENGTHS), LENGTH, HIDDEN)
    result = np.array(layer(x, PADDING_MASK))
    assert result.shape == x.shape
    for row, length in enumerate(LENGTHS):  # padding counts as zeros
        expected = by_loops(layer, x[row, :length].astype("float64"), places, separable)
        np.testing.assert_allclose(result[row, :length], expected, atol=1e-5)


# Recurrent units.


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
def test_a_padded_sentence_gives_the_result_of_a_loop_over_it_alone(causal, hidden_size):
    layer = built(Recurrent(hidden_size, causal), hidden_size)
    x = random(len(LENGTHS), LENGTH, hidden_size)
    result = np.array(layer(x, PADDING_MASK))
    assert result.shape == x.shape
    assert np.isfinite(result).all()
    for row, length in enumerate(LENGTHS):
        expected = expected_states(layer, x[row, :length].astype("float64"))
        np.testing.assert_allclose(result[row, :length], expected, atol=1e-5)
