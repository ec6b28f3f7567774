"""The loss of R-Drop against equation 4 of Wu et al. 2021, in NumPy and float64."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.cross_entropy import linear_rdrop

VOCAB, HIDDEN = 7, 6
TARGETS = np.array([3, 6, 1, 0, 0, 1, 0, 2, 5, 4, 1], "int32")


@pytest.fixture
def factors():
    generator = np.random.default_rng(1)
    return generator.normal(size=(2, len(TARGETS), HIDDEN)), generator.normal(size=(VOCAB, HIDDEN))


def in_numpy(x, weight, label_smoothing, alpha):
    """Returns half of L = -log P1 - log P2 + alpha / 2 (KL(P1, P2) + KL(P2, P1)), summed over the tokens."""
    logits = x @ weight.T
    log_p, log_q = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    labels = (1 - label_smoothing) * np.eye(VOCAB)[TARGETS] + label_smoothing / VOCAB
    likelihood = -(labels * (log_p + log_q)).sum(axis=-1)
    divergence = (np.exp(log_p) * (log_p - log_q) + np.exp(log_q) * (log_q - log_p)).sum(axis=-1)
    return ((likelihood + alpha / 2 * divergence) / 2 * (TARGETS != 0)).sum()


def numeric_gradient(function, array, step=1e-6):
    gradient = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        moved = [array.copy(), array.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        gradient[place] = (function(moved[0]) - function(moved[1])) / (2 * step)
    return gradient


@pytest.mark.parametrize("max_chunk", [1, 4, 100])
@pytest.mark.parametrize(("label_smoothing", "alpha"), [(0.0, 5.0), (0.1, 1.0)])
def test_loss_and_gradients_are_those_of_the_equation(factors, label_smoothing, alpha, max_chunk):
    x, weight = (tf.Variable(part, dtype=tf.float32) for part in factors)
    with tf.GradientTape() as tape:
        sums = linear_rdrop(tf.identity(x), weight, TARGETS, label_smoothing, alpha, max_chunk)
        scaled = 3.0 * sums.smoothed
    of_x, of_weight = tape.gradient(scaled, [x, weight])
    np.testing.assert_allclose(sums.smoothed, in_numpy(*factors, label_smoothing, alpha), rtol=1e-5)
    np.testing.assert_allclose(sums.plain, in_numpy(*factors, 0.0, 0.0), rtol=1e-5)
    expected = numeric_gradient(lambda part: 3 * in_numpy(part, factors[1], label_smoothing, alpha), factors[0])
    np.testing.assert_allclose(of_x, expected, atol=2e-5)
    expected = numeric_gradient(lambda part: 3 * in_numpy(factors[0], part, label_smoothing, alpha), factors[1])
    np.testing.assert_allclose(of_weight, expected, atol=2e-4)
