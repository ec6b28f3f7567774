"""Convolutions over positions against loops over positions and offsets."""

import numpy as np
import pytest
import tensorflow as tf
from support.layers import built, random

from t2t_lite.layers.convolution import Convolution

HIDDEN, LENGTH = 5, 9
LENGTHS = (9, 6, 1)


PADDING_MASK = (np.arange(LENGTH) < np.array(LENGTHS)[:, None])[:, None, None]


def make(paper, causal, kernel_size=3, **how):
    return built(Convolution(HIDDEN, causal, kernel_size, **how), paper, HIDDEN)


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
def test_each_position_is_a_sum_over_the_kernel(kernel_size, dilation, separable, causal, paper):
    layer = make(paper, causal, kernel_size, separable=separable, dilation=dilation)
    places = offsets(kernel_size, dilation, causal)
    x = random(len(LENGTHS), LENGTH, HIDDEN)
    result = np.array(layer(x, PADDING_MASK))
    assert result.shape == x.shape
    for row, length in enumerate(LENGTHS):  # padding counts as zeros
        expected = by_loops(layer, x[row, :length].astype("float64"), places, separable)
        np.testing.assert_allclose(result[row, :length], expected, atol=1e-5)


@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize("dilation", [1, 2])
def test_gradients_of_weights_and_input_are_right_in_a_graph_of_unknown_length(dilation, separable, paper):
    layer = make(paper, causal=False, separable=separable, dilation=dilation)
    assert len(layer.trainable_variables) == len(layer.variables) == (3 if separable else 2)
    weights = random(2, LENGTH, HIDDEN, seed=1)

    @tf.function(input_signature=[tf.TensorSpec((None, None, HIDDEN)), tf.TensorSpec((None, None, HIDDEN))])
    def gradients(x, weights):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x) * weights)
        return tape.gradient(loss, [x, *(variable.value for variable in layer.trainable_variables)])

    x = random(2, LENGTH, HIDDEN)
    of_x, *of_weights = gradients(x, weights)
    assert all(np.abs(gradient).max() > 1e-3 for gradient in of_weights)
    # The output is linear in the input, so each element's derivative is a difference of two outputs.
    places = offsets(3, dilation, False)
    for position, channel in ((0, 1), (4, 0), (LENGTH - 1, 3)):
        one = np.zeros((LENGTH, HIDDEN))
        one[position, channel] = 1.0
        change = by_loops(layer, one, places, separable) - by_loops(layer, 0 * one, places, separable)
        np.testing.assert_allclose(of_x[1, position, channel], (change * weights[1]).sum(), atol=1e-4)
