"""Grids of search settings, n-best lists ranked by another length penalty, and settings that are remembered."""

import json

import pytest

from t2t_lite.config import DecodeHParams
from t2t_lite.decoding.translator import Hypothesis
from t2t_lite.errors import UserError
from t2t_lite.evaluation.tuning import best_row, parse_grid, rescored
from t2t_lite.runs.tuned_settings import TunedSettings, forget, remember, search_settings, tuned_settings


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        ("alpha=0/1/0.6", {"alpha": (0.0, 0.6, 1.0)}),
        ("alpha=0.2:0.6:0.2,beam_size=4", {"alpha": (0.2, 0.4, 0.6), "beam_size": (4,)}),
        ("beam_size=2:8:3, alpha=1", {"beam_size": (2, 5, 8), "alpha": (1.0,)}),
        ("beam_size", {"beam_size": (1, 2, 4, 8)}),
        ("alpha", {"alpha": (0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)}),
    ],
)
def test_a_grid_is_parsed(text, grid):
    assert parse_grid(text) == grid


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alfa", "'alfa' cannot be tuned; did you mean 'alpha'"),
        ("average_checkpoints", "'average_checkpoints' cannot be tuned"),
        ("alpha,alpha=1", "given twice"),
        *(
            (f"alpha={value}", "are not values of alpha; write")
            for value in ("", "x", "1:0:1", "0:1:0", "-1", "nan", "0:9:1e-9")
        ),
        ("beam_size=1.5", "are not values of beam_size"),
        ("beam_size=0", "are not values of beam_size"),
        ("", "'' cannot be tuned"),
    ],
)
def test_a_grid_that_is_none_is_refused(text, said):
    with pytest.raises(UserError, match=said) as caught:
        parse_grid(text)
    assert caught.value.status == 2 and "\n" not in str(caught.value)


@pytest.mark.parametrize("search_alpha", [0.6, 1.0, 2.0])
@pytest.mark.parametrize(("alpha", "best"), [(0.0, "short"), (0.3, "middle"), (1.0, "long")])
def test_hypotheses_are_ranked_by_the_equation_of_the_penalty(search_alpha, alpha, best):
    lengths, log_probs = {"short": 3, "middle": 9, "long": 40}, {"short": -2.0, "middle": -2.2, "long": -4.0}

    def score(name, exponent):
        return log_probs[name] / ((5 + lengths[name]) / 6) ** exponent

    assert max(lengths, key=lambda name: score(name, alpha)) == best
    beams = [Hypothesis(name, score(name, search_alpha), log_probs[name]) for name in lengths]
    assert rescored(beams, search_alpha, alpha).text == best
    ended = Hypothesis("", float("-inf"), float("-inf"))
    assert rescored([ended], search_alpha, alpha) == ended
    assert rescored([Hypothesis("", 0.0, 0.0)], search_alpha, alpha).text == ""


@pytest.mark.parametrize(("sign", "higher_is_better"), [(1, True), (-1, False)])
def test_a_row_of_a_higher_score_by_chance_does_not_hide_one_that_is_significantly_better(sign, higher_is_better):
    current = {"score": 30.0 * sign}
    figures = [(31.0, 0.04), (31.5, 0.03), (31.6, 0.06), (29.0, 0.001)]
    rows = [{"score": sign * score, "p_corrected": p_value} for score, p_value in figures]
    assert best_row(rows, current, higher_is_better) == rows[1]
    assert best_row(rows[2:], current, higher_is_better) is None


def test_tuned_settings_are_the_defaults_and_given_ones_win(tmp_path):
    usual, said = DecodeHParams(extra_length=7), []
    assert search_settings(tmp_path, usual, warn=said.append) == usual and not said
    tuned = TunedSettings({"alpha": 1.2, "beam_size": 8}, "average-9")
    file = remember(tmp_path, tuned, {"tuned_on": "dev"})
    assert json.loads(file.read_text()) == {**tuned._asdict(), "tuned_on": "dev"}
    assert search_settings(tmp_path, usual, "", said.append) == usual.replace(alpha=1.2, beam_size=8)
    assert said == [f"alpha=1.2, beam_size=8 were tuned on dev with average-9 ({file})"]
    said.clear()
    remember(tmp_path, TunedSettings({"alpha": 1.0, "sampling_method": "random", "allow_unk": True}), {})
    assert search_settings(tmp_path, usual, "", said.append).sampling_method == "random"
    assert said == [f"alpha=1, sampling_method=random, allow_unk=True were tuned on dev ({file})"]
    said.clear()
    remember(tmp_path, tuned, {})
    assert search_settings(tmp_path, usual, {"beam_size": 4}, said.append) == usual.replace(alpha=1.2)
    assert said == [f"alpha=1.2 was tuned on dev with average-9 ({file})"]
    said.clear()
    assert search_settings(tmp_path, usual, "beam_size=4, alpha=0.6", said.append) == usual and not said
    assert search_settings(tmp_path, usual, "", said.append, ignored=("alpha", "beam_size")) == usual and not said
    assert forget(tmp_path) and not forget(tmp_path) and tuned_settings(tmp_path) == TunedSettings({})


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"settings": {"alpha": "x"}}', '{"settings": {"alfa": 1}}'])
def test_damaged_tuned_settings_are_an_error_that_says_how_to_remove_them(tmp_path, content):
    (tmp_path / "decode_hparams.json").write_text(content)
    with pytest.raises(UserError, match=r"decode_hparams.json is damaged .* --tune=forget"):
        search_settings(tmp_path, DecodeHParams())
