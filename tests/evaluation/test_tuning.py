"""Search settings that are tuned: grids, n-best lists ranked anew, t2t-lite-eval --tune, and what is remembered."""

import json
import shutil

import pytest

import t2t_lite as t2t
from t2t_lite.config import DecodeHParams
from t2t_lite.decoding.translator import Hypothesis
from t2t_lite.errors import UserError
from t2t_lite.evaluation.tuning import best_row, parse_grid, rescored
from t2t_lite.metric import Metric, SummedStatistics
from t2t_lite.registry import METRICS
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
        *((f"alpha={value}", "are not values of alpha; write") for value in ("", "x", "1:0:1", "0:1:0", "-1", "nan")),
        ("alpha=0:9:1e-9", "are not values of alpha; write"),
        *((f"beam_size={value}", "are not values of beam_size") for value in ("1.5", "0")),
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


@pytest.mark.parametrize("sign", [1, -1])
def test_a_row_of_a_higher_score_by_chance_does_not_hide_one_that_is_significantly_better(sign):
    current = {"score": 30.0 * sign}
    figures = [(31.0, 0.04), (31.5, 0.03), (31.6, 0.06), (29.0, 0.001)]
    rows = [{"score": sign * score, "p_corrected": p_value} for score, p_value in figures]
    assert best_row(rows, current, sign == 1) == rows[1]
    assert best_row(rows[2:], current, sign == 1) is None


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
    for damaged in ("", "[]", "{}", '{"settings": {"alpha": "x"}}', '{"settings": {"alfa": 1}}'):
        file.write_text(damaged)
        with pytest.raises(UserError, match=r"decode_hparams.json is damaged .* --tune=forget"):
            search_settings(tmp_path, usual)


SEARCH = "extra_length=2"


@pytest.fixture
def run(small_run, tmp_path):
    """A copy of the small run, whose outputs score nothing: no settings are better."""
    return shutil.copytree(small_run, tmp_path / "run")


@pytest.fixture
def tune(run, command):
    """Runs the command on the copy; it must end well."""

    def tune(*flags, search=(f"--decode_hparams={SEARCH}",)):
        result = command("eval", f"--output_dir={run}", "--xla_compile=False", *search, *flags)
        assert result.returncode == 0, result.stderr
        return result

    return tune


@pytest.mark.heavy
def test_settings_that_are_not_better_change_nothing(run, tune):
    before = {path.name for path in run.iterdir()}
    grid = "--tune=alpha=0/0.6,beam_size=1/2"
    first = tune(grid)
    assert "nothing is changed" in first.stdout
    folder = run / "scores" / "tune.ckpt-6.alpha.beam_size"
    assert first.stderr.splitlines()[-1] == f"wrote {folder}"
    assert {path.name for path in run.iterdir()} == before | {"scores"}
    content = json.loads((folder / "tune.json").read_text())
    assert [(row["beam_size"], row["alpha"]) for row in content["rows"]] == [(1, 0.6), (2, 0.0), (2, 0.6)]
    assert content["decoded"] is None and content["better"] == {}
    again = tune(grid)
    assert again.stdout == first.stdout and again.stderr.splitlines()[-1] == f"answered from {folder}"
    assert json.loads(tune(grid, "--json").stdout)["rows"] == content["rows"]


@pytest.mark.heavy
@pytest.mark.parametrize("own", [True, False])
def test_the_best_row_is_searched_for_real_and_remembered(run, tune, registered, monkeypatch, own):
    """By a metric for which the outputs of a greedy search are perfect."""
    inputs = t2t.evaluate(run, decode=False).inputs
    greedy = t2t.Translator.from_run_dir(run, f"{SEARCH},beam_size=1", xla_compile=False).translate(inputs)

    class Greedy(Metric):
        def score(self, hypotheses, references):
            return 100 * sum(map(str.__eq__, hypotheses, greedy)) / len(greedy)

        def resampled(self):
            def lines(hypotheses, references):
                return [(ours == theirs, 1) for ours, theirs in zip(hypotheses, greedy)]

            return SummedStatistics("greedy", lines, lambda sums: 100 * sums[0] / sums[1])

    registered(METRICS, "greedy_for_test", Greedy)
    monkeypatch.setattr(type(t2t.get_problem("grammar_ende")), "metric", "greedy_for_test")
    if own:
        monkeypatch.setattr(type(t2t.get_problem("grammar_ende")), "decode_hparams", t2t.DecodeHParams(extra_length=2))
    tuned = tune("--tune=beam_size=1/2/4", **({"search": ()} if own else {}))
    content = json.loads((run / "scores" / "tune.ckpt-6.beam_size" / "tune.json").read_text())
    assert [row["beam_size"] for row in content["rows"]] == [1, 2, 4] and content["rows"][0]["score"] == 100
    real = content["decoded"]
    assert (real["beam_size"], real["score"], content["better"]) == (1, 100, {"beam_size": 1})
    # Holm's correction for three rows; the smallest p-value of 10,000 samples is 1/10,001.
    assert real["p_corrected"] == pytest.approx(3 * real["p_randomisation"]) and "best, real search" in tuned.stdout
    remembered = run / "decode_hparams.json"
    if own:
        assert json.loads(remembered.read_text())["settings"] == {"beam_size": 1}
        assert "beam_size=1: significantly better (corrected p < 0.05), and now the run's defaults" in tuned.stdout
    else:
        assert not remembered.exists()
        assert "not remembered, because decode_hparams changed the settings used for comparison" in tuned.stdout


@pytest.mark.heavy
def test_tuned_settings_are_used_everywhere_until_they_are_forgotten(run, tune, command, grammar_data):
    (run / "decode_hparams.json").write_text('{"settings": {"beam_size": 1, "alpha": 0.0}}')
    line = f"beam_size=1, alpha=0 were tuned on dev ({run / 'decode_hparams.json'})"
    decoder = ("decoder", f"--output_dir={run}", "--xla_compile=False")
    assert line in command(*decoder, stdin=b"The dog sleeps.\n").stderr.splitlines()
    given = command(*decoder, "--decode_hparams=beam_size=4,alpha=0.6", stdin=b"The dog sleeps.\n")
    assert given.returncode == 0 and "tuned on dev" not in given.stderr
    said = []
    translator = t2t.Translator.from_run_dir(run, warn=said.append)
    assert (translator.decode_hparams.beam_size, translator.decode_hparams.alpha) == (1, 0.0) and said == [line]
    result = tune("--split=dev")
    assert line in result.stderr.splitlines()
    assert (run / "scores" / "dev.ckpt-6.beam_size=1.alpha=0.extra_length=2").is_dir()
    assert tune("--tune=forget").stdout == f"removed {run / 'decode_hparams.json'}\n"
    assert "nothing was tuned" in tune("--tune=forget").stdout
    assert t2t.Translator.from_run_dir(run).decode_hparams == t2t.DecodeHParams()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--tune=alfa", "'alfa' cannot be tuned"),
        ("--tune=alpha --split=test", "works on dev"),
        ("--tune=alpha --metric=ter", "cannot be combined"),
        ("--tune=alpha --decode_hparams=coverage_penalty=0.2", "cannot be combined with coverage_penalty=0.2"),
        ("--tune=average_checkpoints=9", "'average_checkpoints' cannot be tuned"),
        ("--tune=alpha --plot_file=x.png", "--plot_file was removed in 0.10: t2t-lite-report shows"),
    ],
)
def test_mistakes_are_one_line(run, command, flags, said):
    result = command("eval", f"--output_dir={run}", *flags.split())
    lines = [line for line in result.stderr.splitlines() if not line.startswith("using ")]
    assert result.returncode in (1, 2) and len(lines) == 1, result.stderr
    assert said in lines[0] and not (run / "scores").exists()
