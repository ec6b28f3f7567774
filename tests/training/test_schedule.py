"""The learning rate against equation 3 in plain Python."""

import pytest

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS
from t2t_lite.training.schedule import learning_rate


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


def test_multi30k_peaks_at_0_005_at_step_2000():
    hparams = HPARAMS["transformer_multi30k"]()
    rates = {step: float(learning_rate(step, hparams)) for step in (1, 1000, 1999, 2000, 2001, 8000)}
    assert rates[2000] == pytest.approx(0.005, rel=1e-6)
    assert max(rates, key=rates.get) == 2000
    assert rates[1000] == pytest.approx(0.0025, rel=1e-6)
    assert rates[8000] == pytest.approx(0.0025, rel=1e-6)


def test_learning_rate_constant_is_a_factor():
    hparams = HParams()
    doubled = hparams.replace(learning_rate_constant=2.0)
    for step in (1, 4000, 9000):
        assert float(learning_rate(step, doubled)) == pytest.approx(2.0 * float(learning_rate(step, hparams)))
