"""Adam with the schedule against NumPy, float64."""

import keras
import numpy as np
import pytest

from t2t_lite.config import HParams
from t2t_lite.training.optimizer import make_optimizer

HPARAMS = HParams(hidden_size=16, num_heads=2, learning_rate_warmup_steps=2)
START = np.array([1.0, -2.0, 0.5, 0.0])
GRADIENTS = np.array([[0.3, -0.001, 2.0, 0.0], [-0.2, -0.002, 2.0, 0.01], [0.1, 0.004, -3.0, 0.0]])


def rate(step):
    """Equation 3 for HPARAMS."""
    return 16**-0.5 * min(step**-0.5, step * 2**-1.5)


def adam(epsilon, epsilon_inside):
    """Kingma & Ba 2015: algorithm 1 (epsilon beside sqrt of the corrected second moment), or, with `epsilon_inside`,
    the reordering at the end of their section 2, which TensorFlow and Keras use: epsilon beside sqrt of the raw one.
    """
    x, first, second = START.copy(), np.zeros(4), np.zeros(4)
    for step, gradient in enumerate(GRADIENTS, start=1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.98 * second + 0.02 * gradient**2
        if epsilon_inside:
            size = rate(step) * np.sqrt(1 - 0.98**step) / (1 - 0.9**step)
            x = x - size * first / (np.sqrt(second) + epsilon)
        else:
            corrected = np.sqrt(second / (1 - 0.98**step)) + epsilon
            x = x - rate(step) * first / (1 - 0.9**step) / corrected
    return x


def after_three_steps(hparams):
    variable = keras.Variable(START.astype("float32"))
    optimizer = make_optimizer(hparams)
    optimizer.build([variable])
    for gradient in GRADIENTS:
        optimizer.apply([keras.ops.convert_to_tensor(gradient.astype("float32"))], [variable])
    assert int(optimizer.iterations) == 3
    return np.array(variable)


@pytest.mark.parametrize("epsilon", [1e-9, 0.05])
def test_three_steps_are_adam_with_tensorflows_place_of_epsilon(epsilon):
    result = after_three_steps(HPARAMS.replace(adam_epsilon=epsilon))
    np.testing.assert_allclose(result, adam(epsilon, epsilon_inside=True), rtol=2e-5, atol=1e-6)


def test_with_the_papers_epsilon_its_place_does_not_matter_for_gradients_far_above_it():
    result = after_three_steps(HPARAMS)
    np.testing.assert_allclose(result, adam(HPARAMS.adam_epsilon, epsilon_inside=False), rtol=2e-5, atol=1e-6)
    # With a large one it does, so that the test above tells the two apart.
    assert np.abs(adam(0.05, epsilon_inside=True) - adam(0.05, epsilon_inside=False)).max() > 1e-3


def test_betas_and_epsilon_are_the_papers():
    optimizer = make_optimizer(HParams())
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, 0.98, 1e-9)


def test_betas_come_from_the_settings():
    optimizer = make_optimizer(HPARAMS.replace(adam_beta1=0.5, adam_beta2=0.75))
    assert (optimizer.beta_1, optimizer.beta_2) == (0.5, 0.75)
