"""t2t-lite-eval --tune: what it finds, when it remembers a choice, and who uses it."""

import json
import shutil

import pytest

import t2t_lite as t2t
from t2t_lite.metric import Metric, SummedStatistics
from t2t_lite.registry import METRICS

SEARCH = "extra_length=2"


@pytest.fixture
def run(small_run, tmp_path):
    """A copy of the small run, whose outputs score nothing: no settings are better."""
    return shutil.copytree(small_run, tmp_path / "run")


@pytest.fixture
def tune(run, command):
    """Runs the command on the copy; it must end well."""

    def tune(*flags):
        result = command("eval", f"--output_dir={run}", f"--decode_hparams={SEARCH}", "--xla_compile=False", *flags)
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
def test_the_best_row_is_searched_for_real_and_remembered(run, command, registered, monkeypatch, own):
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
    changes = () if own else (f"--decode_hparams={SEARCH}",)
    tuned = command("eval", f"--output_dir={run}", "--xla_compile=False", "--tune=beam_size=1/2/4", *changes)
    assert tuned.returncode == 0, tuned.stderr
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
        (["--tune=alfa"], "'alfa' cannot be tuned"),
        (["--tune=alpha", "--split=test"], "works on dev"),
        (["--tune=alpha", "--metric=ter"], "cannot be combined"),
        (["--tune=alpha", "--decode_hparams=coverage_penalty=0.2"], "cannot be combined with coverage_penalty=0.2"),
        (["--tune=average_checkpoints=9"], "'average_checkpoints' cannot be tuned"),
        (["--tune=alpha", "--plot_file=x.png"], "--plot_file was removed in 0.10: t2t-lite-report shows"),
    ],
)
def test_mistakes_are_one_line(run, command, flags, said):
    result = command("eval", f"--output_dir={run}", *flags)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("using ")]
    assert result.returncode in (1, 2) and len(lines) == 1, result.stderr
    assert said in lines[0] and not (run / "scores").exists()
