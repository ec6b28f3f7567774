"""The learning rates of the trainer and of Keras' optimizers against equation 3 and other formulas in plain Python."""

import math

import keras
import numpy as np
import pytest

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS, LEARNING_RATE_SCHEDULES
from t2t_lite.schedules import InverseSqrt, learning_rate

STEPS = [1, 2, 100, 3999, 4000, 4001, 100_000]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("hparams_set", "d_model"), [("transformer_base", 512), ("transformer_big", 1024)])
def test_the_papers_sets_and_the_schedule_for_keras_follow_equation_3(hparams_set, d_model, step):
    expected = d_model**-0.5 * min(step**-0.5, step * 4000**-1.5)
    hparams = HPARAMS[hparams_set]()
    assert float(learning_rate(step, hparams)) == pytest.approx(expected, rel=1e-6)
    assert float(learning_rate(step, hparams.replace(learning_rate_constant=2.0))) == pytest.approx(2.0 * expected)
    assert float(InverseSqrt(d_model, 4000, constant=2.0)(step - 1)) == pytest.approx(2.0 * expected, rel=1e-6)


WARMUP, DECAY_STEPS, PEAK = 100, 900, 0.003
AFTER_WARMUP = {
    "inverse_sqrt": lambda step: (WARMUP / step) ** 0.5,
    "cosine": lambda step: (1 + math.cos(math.pi * (step - WARMUP) / (DECAY_STEPS - WARMUP))) / 2,
    "linear": lambda step: (DECAY_STEPS - step) / (DECAY_STEPS - WARMUP),
    "constant": lambda step: 1.0,
}


def of_schedule(name, **changes):
    steps = DECAY_STEPS if name in ("cosine", "linear") else 0
    warmup = {"learning_rate_warmup_steps": WARMUP, "learning_rate_decay_steps": steps}
    return HParams(hidden_size=64, num_heads=2, learning_rate_schedule=name, **warmup, **changes)


@pytest.mark.parametrize("name", LEARNING_RATE_SCHEDULES.names())
def test_a_schedule_grows_to_the_peak_and_then_follows_its_formula(name):
    papers = 0.5 * 64**-0.5 * WARMUP**-0.5
    for peak, settings in ((PEAK, {"learning_rate": PEAK}), (papers, {"learning_rate_constant": 0.5})):
        for step in (1, 50, 99, 100, 101, 500, 899):
            expected = peak * (step / WARMUP if step <= WARMUP else AFTER_WARMUP[name](step))
            found = float(learning_rate(step, of_schedule(name, **settings)))
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-6 * peak), step


@pytest.mark.parametrize("name", ["cosine", "linear"])
def test_the_rate_stays_0_after_the_last_decay_step(name):
    assert float(learning_rate(DECAY_STEPS - 1, of_schedule(name))) > 0
    for step in (DECAY_STEPS, DECAY_STEPS + 1, 10 * DECAY_STEPS):
        assert float(learning_rate(step, of_schedule(name))) == pytest.approx(0.0, abs=1e-12)


def test_a_plug_in_brings_a_schedule(registered):
    registered(LEARNING_RATE_SCHEDULES, "halves", lambda step, hparams: hparams.learning_rate / 2**step)
    hparams = HParams(learning_rate_schedule="halves", learning_rate=0.8)
    assert float(learning_rate(3, hparams)) == pytest.approx(0.1)


def test_an_optimizer_of_keras_uses_the_rate_of_the_next_update_and_keeps_the_schedule_in_its_config():
    schedule, variable = InverseSqrt(64, 3, 0.7), keras.Variable(0.0)
    optimizer = keras.optimizers.SGD(schedule)
    for step in range(1, 6):
        before = float(variable.value)
        optimizer.apply([np.float32(1.0)], [variable])
        assert before - float(variable.value) == pytest.approx(float(schedule(step - 1)), rel=1e-4)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again._learning_rate) is InverseSqrt
    assert again._learning_rate.get_config() == schedule.get_config()
