"""t2t-lite-eval --tune: what it finds, when it remembers a choice, and who uses it."""

import json
import shutil

import pytest

import t2t_lite as t2t
from t2t_lite.decoding.loading import open_model
from t2t_lite.evaluation.options import EvalOptions
from t2t_lite.evaluation.request import make_request
from t2t_lite.evaluation.tuning_search import tuning_candidates

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
def test_settings_that_are_not_better_change_nothing(run, tune, tmp_path):
    before = {path.name for path in run.iterdir()}
    plot = tmp_path / "tuned.png"
    first = tune("--tune=alpha=0/0.6,beam_size=1/2,average_checkpoints", f"--plot_file={plot}")
    assert "nothing is changed" in first.stdout and plot.read_bytes().startswith(b"\x89PNG")
    folder = run / "scores" / "tune.ckpt-6.alpha.beam_size.average_checkpoints"
    assert first.stderr.splitlines()[-1] == f"wrote {folder}"
    assert {path.name for path in run.iterdir()} == before | {"scores"}
    content = json.loads((folder / "tune.json").read_text())
    # The current checkpoint is the average of the last one, and there are fewer than 5 checkpoints.
    assert [(row["average_checkpoints"], row["beam_size"], row["alpha"]) for row in content["rows"]] == [
        *((None, 1, 0.6), (None, 2, 0.0), (None, 2, 0.6))
    ]
    assert content["decoded"] == [] and content["better"] == {}
    again = tune("--tune=alpha=0/0.6,beam_size=1/2,average_checkpoints")
    assert again.stdout == first.stdout and again.stderr.splitlines()[-1] == f"answered from {folder}"
    assert (
        json.loads(tune("--tune=alpha=0/0.6,beam_size=1/2,average_checkpoints", "--json").stdout)["rows"]
        == content["rows"]
    )


@pytest.mark.heavy
def test_averages_are_tried_without_replacing_that_of_the_run(run, tune, command):
    assert command("avg", f"--output_dir={run}", "--n=2").returncode == 0
    before = {path.name: path.stat().st_mtime_ns for path in run.glob("average-*")}
    tune("--tune=average_checkpoints=1/2/3")
    content = json.loads((run / "scores" / "tune.average-6.average_checkpoints" / "tune.json").read_text())
    assert [row["average_checkpoints"] for row in content["rows"]] == [None, 1, 3]  # the current one is that of 2
    assert {path.name: path.stat().st_mtime_ns for path in run.glob("average-*")} == before


@pytest.mark.heavy
def test_an_average_that_is_tried_is_the_one_that_would_be_written(run, command, grammar_data):
    inputs = (grammar_data / "grammar_ende-dev.inputs.txt").read_text().splitlines()
    options = EvalOptions("ckpt-2", "beam_size=2", data_dir=grammar_data, xla_compile=False)
    request = make_request(open_model(run, options.checkpoint_path, options.decode_hparams), options)
    grid = {"average_checkpoints": (1, 2, 3)}
    tried = {each.average_checkpoints: each.hypotheses for each in tuning_candidates(request, inputs, grid)}
    for number in (1, 2, 3):
        assert command("avg", f"--output_dir={run}", f"--n={number}").returncode == 0
        translator = t2t.Translator.from_run_dir(run, "beam_size=2", "average", xla_compile=False)
        assert tried[number] == translator.translate(inputs)
    assert len({tuple(outputs) for outputs in tried.values()}) > 2  # the weights matter


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


@pytest.mark.heavy
def test_settings_that_were_tuned_before_are_tried_and_not_left_active(run, tune, command):
    file = run / "decode_hparams.json"
    earlier = {"settings": {"alpha": 1.3, "beam_size": 3}, "checkpoint": "ckpt-2"}
    about = "alpha=1.3 was tuned earlier with ckpt-2, not ckpt-6. It is among the rows and"
    file.write_text(json.dumps(earlier))
    # With other settings than the run's own, nothing is decided.
    stdout = tune("--tune=alpha=0/0.6").stdout
    assert f"{about} stays the run's default" in stdout and json.loads(file.read_text()) == earlier
    result = command("eval", f"--output_dir={run}", "--xla_compile=False", "--tune=alpha=0/0.6")
    assert f"{about} is no longer used.\n\nNo settings are significantly better" in result.stdout
    assert "the settings of the problem are used" in result.stdout
    content = json.loads((run / "scores" / "tune.ckpt-6.alpha" / "tune.json").read_text())
    assert [row["alpha"] for row in content["rows"]] == [0.0, 0.6, 1.3]
    kept = json.loads(file.read_text())
    assert kept["settings"] == {"beam_size": 3} and kept["checkpoint"] == "ckpt-2"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--tune=alfa"], "'alfa' cannot be tuned"),
        (["--tune=alpha", "--split=test"], "works on dev"),
        (["--tune=alpha", "--metric=ter"], "cannot be combined"),
        (["--plot_file=x.png"], "--plot_file needs --tune"),
        (["--tune=alpha", "--plot_file=x.gif"], "unknown plot format"),
        (["--tune=alpha", "--decode_hparams=coverage_penalty=0.2"], "cannot be combined with coverage_penalty=0.2"),
        (["--tune=average_checkpoints=9"], "average_checkpoints=9, but .* has 3 checkpoints"),
    ],
)
def test_mistakes_are_one_line(run, command, flags, said):
    result = command("eval", f"--output_dir={run}", *flags)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("using ")]
    assert result.returncode in (1, 2) and len(lines) == 1, result.stderr
    assert said.split(" .* ")[-1] in lines[0] and not (run / "scores").exists()
