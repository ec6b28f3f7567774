"""The position-wise networks against their equations."""

import numpy as np
import pytest
from support.seeds import seeds_of

from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward


@pytest.fixture
def layer(paper):
    layer = FeedForward(4, 10)
    layer.build((None, None, 4))
    paper.randomize(layer)
    return layer


@pytest.fixture
def gated(paper):
    layer = GatedFeedForward(4, 10)
    layer.build((None, None, 4))
    paper.randomize(layer)
    return layer


def test_feed_forward_is_equation_2_with_both_biases(layer, paper):
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")
    result = np.array(layer(x))
    for row in range(2):
        np.testing.assert_allclose(result[row], paper.feed_forward(layer, x[row].astype("float64")), atol=1e-5)


def test_the_gated_network_is_swiglu_at_every_position(gated):
    w_and_v = np.array(gated.expand.kernel).astype("float64")
    w, v, w2 = w_and_v[:, :10], w_and_v[:, 10:], np.array(gated.project.kernel).astype("float64")
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")
    result = np.array(gated(x))
    assert result.shape == x.shape
    for row, position in np.ndindex(2, 3):
        own = x[row, position].astype("float64")
        gate = own @ w
        expected = (gate / (1.0 + np.exp(-gate)) * (own @ v)) @ w2
        np.testing.assert_allclose(result[row, position], expected, atol=1e-5)


@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
def test_dropout_acts_on_the_inner_layer_and_only_with_seeds(kind, paper):
    rate, size = 0.25, 16
    layer, whole = kind(size, size, dropout=rate), kind(size, size)
    for one in (layer, whole):
        one.build((None, None, size))
        paper.randomize(one)
        one.project.kernel.assign(np.eye(size))  # makes the output equal to the inner layer
        for bias in one.variables[3:]:
            bias.assign(np.zeros(size))
    x = np.random.default_rng(1).normal(size=(10, 20, size)).astype("float32")
    inner = np.array(whole(x))
    np.testing.assert_array_equal(layer(x), inner)
    dropped = np.array(layer(x, seeds=seeds_of()))
    active = np.abs(inner) > 1e-6
    is_kept = active & (dropped != 0.0)
    np.testing.assert_allclose(dropped[is_kept], inner[is_kept] / (1 - rate), rtol=1e-4)
    deviation = (rate * (1 - rate) / active.sum()) ** 0.5
    assert abs(is_kept.sum() / active.sum() - (1 - rate)) < 4 * deviation
