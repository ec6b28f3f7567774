"""The learning rate for Keras' optimizers against equation 3 and the trainer's."""

import doctest

import keras
import numpy as np
import pytest

from t2t_lite import schedules
from t2t_lite.config import HParams
from t2t_lite.schedules import InverseSqrt, learning_rate

STEPS = [1, 2, 3999, 4000, 4001, 100_000]


@pytest.mark.parametrize("step", STEPS)
def test_the_rate_of_each_step_is_equation_3(step):
    expected = 2.0 * 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert float(InverseSqrt(512, 4000, constant=2.0)(step - 1)) == pytest.approx(expected, rel=1e-6)


def test_keras_and_the_trainer_use_the_same_rates():
    hparams = HParams(hidden_size=64, learning_rate_warmup_steps=30, learning_rate_constant=0.7)
    schedule = InverseSqrt(64, 30, 0.7)
    assert [float(schedule(step - 1)) for step in STEPS] == [float(learning_rate(step, hparams)) for step in STEPS]


def test_an_optimizer_uses_the_rate_of_the_next_update():
    optimizer, variable = keras.optimizers.SGD(InverseSqrt(64, 3)), keras.Variable(0.0)
    for step in range(1, 6):
        before = float(variable.value)
        optimizer.apply([np.float32(1.0)], [variable])
        assert before - float(variable.value) == pytest.approx(float(InverseSqrt(64, 3)(step - 1)), rel=1e-4)


def test_the_config_makes_the_same_schedule():
    schedule = InverseSqrt(64, 30, 0.7)
    adam = keras.optimizers.deserialize(keras.optimizers.serialize(keras.optimizers.Adam(schedule)))
    assert type(adam._learning_rate) is InverseSqrt
    assert adam._learning_rate.get_config() == schedule.get_config()


def test_the_example_runs():
    results = doctest.testmod(schedules)
    assert results.attempted and not results.failed
