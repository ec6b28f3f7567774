"""t2t-lite-trainer --report: the file follows the training, and its errors never stop it."""

import importlib.util
import json
import re

import pytest
from support.reports import Report

import t2t_lite as t2t

SMALL = {"hidden_size": 16, "filter_size": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}


@pytest.fixture
def trained_here(grammar_data, tmp_path):
    """A function that trains such a model in the folder "api" from Python, with a report."""

    def train(*callbacks, hidden_size=16, **options):
        return t2t.train(
            "grammar_ende",
            "transformer_tiny",
            data_dir=grammar_data,
            output_dir=tmp_path / "api",
            hparams=SMALL | {"batch_tokens": 256, "hidden_size": hidden_size},
            train_steps=4,
            peak_tflops=1.0,
            callbacks=callbacks,
            report=True,
            **options,
        )

    return train


@pytest.mark.heavy
def test_the_report_of_a_training_follows_it(trained_here, tmp_path):
    seen = []

    class Reader(t2t.Callback):
        def on_step(self, step, figures):
            file = tmp_path / "api" / "report.html"
            if step in (2, 3):
                seen.append(Report(file).charts["Loss of training and dev"] if file.exists() else "")

    result = trained_here(Reader(), save_checkpoints_steps=2)
    assert result.step == 4 and seen[0] == "" and "dev: " in seen[1] and seen[1].endswith("at step 2.")
    report = Report(tmp_path / "api" / "report.html")
    assert report.charts["Loss of training and dev"].endswith("at step 4.")  # written at the end in any case
    assert "state complete" in report.text and "hparam set transformer_tiny" in report.text
    start = json.loads((tmp_path / "api" / "log.jsonl").read_text().splitlines()[0])
    assert f"parameters {start['parameters']:,} " in report.text and f"TensorFlow {start['tensorflow']}" in report.text
    assert "does not record" not in report.text and "training pairs 1,500" in report.text


@pytest.mark.slow
def test_an_error_that_ends_a_training_leaves_a_report_of_how_far_it_came(trained_here, tmp_path):
    class Failing(t2t.Callback):
        def on_step(self, step, figures):
            if step == 3:
                raise RuntimeError("the end")

    with pytest.raises(RuntimeError, match="the end"):
        trained_here(Failing(), log_step_count_steps=1, save_checkpoints_steps=9)
    file = tmp_path / "api" / "report.html"
    assert Report(file).charts["Loss of training and dev"].endswith("at step 2.")
    # What ends a training before its first step is not news about the run.
    file.write_text("as it was")
    with pytest.raises(t2t.UserError, match="hidden_size"):
        trained_here(hidden_size=32)
    assert file.read_text() == "as it was"


def test_a_missing_package_is_said_before_anything_is_done(command, small_flags, grammar_data, tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "jinja2" else find_spec(name, *more)
    )
    folders = (f"--data_dir={grammar_data}", f"--output_dir={tmp_path / 'run'}")
    result = command("trainer", *small_flags, *folders, "--report")
    assert result.returncode == 1 and not (tmp_path / "run").exists()
    assert re.search(r"a report needs Jinja; run .*pip install -e '.*\[plot\]', or omit --report\n", result.stderr)
