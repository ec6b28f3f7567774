"""The position-wise network against equation 2."""

import numpy as np
import pytest

from t2t_lite.layers.feed_forward import FeedForward


@pytest.fixture
def layer(paper):
    layer = FeedForward(4, 10)
    layer.build((None, None, 4))
    paper.randomize(layer)
    return layer


def test_it_is_equation_2_with_both_biases(layer, paper):
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")
    result = np.array(layer(x))
    for row in range(2):
        np.testing.assert_allclose(result[row], paper.feed_forward(layer, x[row].astype("float64")), atol=1e-5)


def test_positions_do_not_see_one_another(layer):
    x = np.random.default_rng(1).normal(size=(1, 3, 4)).astype("float32")
    changed = x.copy()
    changed[0, 1] += 1.0
    before, after = np.array(layer(x)), np.array(layer(changed))
    np.testing.assert_allclose(after[0, [0, 2]], before[0, [0, 2]], atol=1e-6)
    assert np.abs(after[0, 1] - before[0, 1]).max() > 0.01


def test_parameters_are_two_matrices_and_two_biases(layer):
    assert layer.count_params() == 2 * 4 * 10 + 10 + 4
