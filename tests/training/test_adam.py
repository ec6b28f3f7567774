"""Adam with the schedule against NumPy, float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.training.optimizers import LOSS_SCALE_GROWTH_STEPS, make_optimizer

HPARAMS = HParams(hidden_size=16, num_heads=2, learning_rate_warmup_steps=2)
START = np.array([1.0, -2.0, 0.5, 0.0])
GRADIENTS = np.array([[0.3, -0.001, 2.0, 0.0], [-0.2, -0.002, 2.0, 0.01], [0.1, 0.004, -3.0, 0.0]])


def make(hparams=HPARAMS):
    """A variable with the initial value START, and its optimizer."""
    variable = keras.Variable(START.astype("float32"), name="x")
    return variable, make_optimizer([variable], hparams)


def apply(optimizer, gradient, loss_scale=1.0):
    gradient = tf.constant(gradient.astype("float32")) * loss_scale
    optimizer.apply(tf.distribute.get_strategy(), [gradient], tf.constant(loss_scale), tf.norm(gradient) / loss_scale)
    optimizer.count(tf.constant(True))


def skip(optimizer):
    optimizer.count(tf.constant(False))


@pytest.mark.heavy
def test_the_loss_scale_is_halved_by_skips_and_doubled_after_many_good_steps():
    _, optimizer = make(HPARAMS.replace(precision="mixed_float16"))
    assert float(optimizer.loss_scale) == 2.0**15
    skip(optimizer)
    assert float(optimizer.loss_scale) == 2.0**14
    for _ in range(LOSS_SCALE_GROWTH_STEPS - 1):
        apply(optimizer, GRADIENTS[0])
    assert float(optimizer.loss_scale) == 2.0**14
    apply(optimizer, GRADIENTS[0])
    assert float(optimizer.loss_scale) == 2.0**15
    for _ in range(30):
        skip(optimizer)
    assert float(optimizer.loss_scale) == 1.0


def test_the_moving_average_follows_the_weights():
    variable, optimizer = make(HPARAMS.replace(ema_decay=0.25))
    expected = START.copy()
    # Below ema_decay at first: (1 + t) / (10 + t) is 2/11, 3/12, 4/13.
    for gradient, decay in zip(GRADIENTS, (2 / 11, 0.25, 0.25)):
        apply(optimizer, gradient)
        expected = decay * expected + (1 - decay) * np.array(variable)
    weights = np.array(variable)
    with optimizer.averages_in_place():
        np.testing.assert_allclose(np.array(variable), expected, rtol=1e-5)
    np.testing.assert_array_equal(np.array(variable), weights)
    with optimizer.averages_in_place():
        np.testing.assert_allclose(np.array(variable), expected, rtol=1e-5)


def test_the_moving_average_forgets_the_initial_weights():
    variable, optimizer = make(HPARAMS.replace(ema_decay=0.9999, learning_rate_constant=1e-20))
    optimizer.averages[0].assign(START + 1.0)  # the weights stay constant, so the average shows how much of it remains
    for _ in range(100):
        apply(optimizer, GRADIENTS[0])
    remains = np.array(optimizer.averages[0]) - np.array(variable)
    np.testing.assert_allclose(remains, np.prod([(1 + t) / (10 + t) for t in range(1, 101)]), atol=1e-6)
    assert remains.max() < 1e-6
