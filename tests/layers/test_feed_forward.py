"""The gated position-wise network against its equation, and dropout in both; the usual one is in tests/models."""

import numpy as np
import pytest
from support.layers import built, random
from support.seeds import seeds_of

from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward


def test_the_gated_network_is_swiglu_at_every_position(paper):
    gated = built(GatedFeedForward(4, 10), paper, 4)
    w_and_v = np.array(gated.expand.kernel).astype("float64")
    w, v, w2 = w_and_v[:, :10], w_and_v[:, 10:], np.array(gated.project.kernel).astype("float64")
    x = random(2, 3, 4)
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
    layer, whole = (built(kind(size, size, dropout=dropout), paper, size) for dropout in (rate, 0.0))
    for one in (layer, whole):
        one.project.kernel.assign(np.eye(size))  # makes the output equal to the inner layer
        for bias in one.variables[3:]:
            bias.assign(np.zeros(size))
    x = random(10, 20, size)
    inner = np.array(whole(x))
    np.testing.assert_array_equal(layer(x), inner)
    dropped = np.array(layer(x, seeds=seeds_of()))
    active = np.abs(inner) > 1e-6
    is_kept = active & (dropped != 0.0)
    np.testing.assert_allclose(dropped[is_kept], inner[is_kept] / (1 - rate), rtol=1e-4)
    deviation = (rate * (1 - rate) / active.sum()) ** 0.5
    assert abs(is_kept.sum() / active.sum() - (1 - rate)) < 4 * deviation
