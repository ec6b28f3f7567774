"""The learning rate against equation 3 and the formulas of the other schedules in plain Python."""

import math

import pytest

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS, LEARNING_RATE_SCHEDULES
from t2t_lite.schedules import learning_rate


@pytest.mark.parametrize("step", [1, 100, 4000, 100_000])
@pytest.mark.parametrize(("hparams_set", "d_model"), [("transformer_base", 512), ("transformer_big", 1024)])
def test_the_papers_sets_follow_equation_3(hparams_set, d_model, step):
    expected = d_model**-0.5 * min(step**-0.5, step * 4000**-1.5)
    hparams = HPARAMS[hparams_set]()
    assert float(learning_rate(step, hparams)) == pytest.approx(expected, rel=1e-6)


def test_learning_rates_of_the_base_model():
    hparams = HPARAMS["transformer_base"]()
    assert float(learning_rate(1, hparams)) == pytest.approx(1.746928e-7, rel=1e-5)
    assert float(learning_rate(4000, hparams)) == pytest.approx(6.987712e-4, rel=1e-5)
    assert float(learning_rate(16_000, hparams)) == pytest.approx(3.493856e-4, rel=1e-5)


def test_learning_rate_constant_is_a_factor():
    hparams = HParams()
    doubled = hparams.replace(learning_rate_constant=2.0)
    for step in (1, 4000, 9000):
        assert float(learning_rate(step, doubled)) == pytest.approx(2.0 * float(learning_rate(step, hparams)))


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


def test_every_registered_schedule_is_tested():
    assert sorted(AFTER_WARMUP) == LEARNING_RATE_SCHEDULES.names()


@pytest.mark.parametrize("name", AFTER_WARMUP)
@pytest.mark.parametrize("step", [1, 50, 99, 100, 101, 500, 899])
def test_a_schedule_grows_to_the_peak_and_then_follows_its_formula(name, step):
    expected = PEAK * (step / WARMUP if step <= WARMUP else AFTER_WARMUP[name](step))
    assert float(learning_rate(step, of_schedule(name, learning_rate=PEAK))) == pytest.approx(
        expected, rel=1e-5, abs=1e-6 * PEAK
    )


@pytest.mark.parametrize("name", ["cosine", "linear"])
def test_the_rate_stays_0_after_the_last_decay_step(name):
    assert float(learning_rate(DECAY_STEPS - 1, of_schedule(name))) > 0
    for step in (DECAY_STEPS, DECAY_STEPS + 1, 10 * DECAY_STEPS):
        assert float(learning_rate(step, of_schedule(name))) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", AFTER_WARMUP)
def test_without_a_learning_rate_the_peak_is_the_papers(name):
    rate = float(learning_rate(WARMUP, of_schedule(name, learning_rate_constant=0.5)))
    assert rate == pytest.approx(0.5 * 64**-0.5 * WARMUP**-0.5, rel=1e-6)


def test_a_plug_in_brings_a_schedule(registered):
    registered(LEARNING_RATE_SCHEDULES, "halves", lambda step, hparams: hparams.learning_rate / 2**step)
    hparams = HParams(learning_rate_schedule="halves", learning_rate=0.8)
    assert float(learning_rate(3, hparams)) == pytest.approx(0.1)
