"""A model is chosen once: `open_model`, what it says of a model, and the same choice in another process."""

import json
import pickle
import shutil
from pathlib import Path

import pytest

from t2t_lite.decoding import export_dir
from t2t_lite.decoding.loading import load_model, open_model
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.exporting.export import exported_run

TIED = Path(__file__).resolve().parents[1] / "frozen/0.2/tied/run"
LINES = ["The cat sleeps.", "The old man sees a dog."]


@pytest.fixture
def runs(tmp_path):
    """Two equal runs with tuned settings."""
    for name in ("a", "b"):
        shutil.copytree(TIED, tmp_path / name)
        (tmp_path / name / "decode_hparams.json").write_text(json.dumps({"settings": {"alpha": 1.5}}))
    return [tmp_path / "a", tmp_path / "b"]


def train_further(run):
    """Adds a checkpoint after the last one, so that the average is outdated, and other tuned settings."""
    for kind in (".index", ".data-00000-of-00001"):
        shutil.copyfile(next(run.glob(f"ckpt-*{kind}")), run / f"ckpt-999999{kind}")
    (run / "decode_hparams.json").write_text(json.dumps({"settings": {"alpha": 0.3}}))


@pytest.mark.parametrize("number", [1, 2])
def test_another_process_chooses_the_same_checkpoints_and_settings(runs, number):
    source = open_model(runs[:number], decode_hparams="beam_size=2")
    assert (source.settings.alpha, source.settings.beam_size) == (1.5, 2)
    assert source.where == ",".join(map(str, runs[:number])) and len(source.remarks) == 1
    arguments = pickle.loads(pickle.dumps(source.arguments()))
    for run in runs:
        train_further(run)
    again = open_model(**arguments)
    assert (again.checkpoints, again.settings) == (source.checkpoints, source.settings)
    assert again.fingerprint() == source.fingerprint() and again.remarks == ()
    other = open_model(runs[:number], "last")
    assert {path.name for path in other.checkpoints} == {"ckpt-999999"} and other.settings.alpha == 0.3
    # What the newer files give rise to is said before a model is loaded.
    said, newer = [], open_model(runs[:number])
    Translator.of(newer, EngineOptions(said.append))
    assert said == list(newer.remarks)
    assert "is older than" in said[0] and said[-1].startswith("alpha=0.3 was tuned on dev")


def test_a_model_without_a_search_needs_no_search_settings(runs):
    (runs[0] / "decode_hparams.json").write_text('{"settings": {"alpha": "x"}}')
    assert load_model(runs[0]).count_params() == load_model(runs[1]).count_params()
    with pytest.raises(UserError, match=r"decode_hparams\.json is damaged"):
        open_model(runs[0])


def test_models_with_other_vocabularies_form_no_ensemble_and_a_checkpoint_is_that_of_one_model(runs):
    other = Path(__file__).resolve().parents[1] / "frozen/0.2/hard_alignment/run"
    with pytest.raises(UserError, match="differ; use models with the same vocabulary") as caught:
        open_model([runs[0], other])
    assert str(runs[0]) in str(caught.value) and str(other) in str(caught.value)
    with pytest.raises(UserError, match="works with one run directory, not with 2"):
        open_model(runs, checkpoint_path=next(runs[0].glob("ckpt-*.index")).with_suffix(""))


def test_an_export_is_read_whole_only_when_it_is_loaded_and_only_once(runs, monkeypatch):
    pytest.importorskip("ctranslate2")
    exported_run(open_model(runs[0]), lambda line: None)
    read = []
    sha256 = export_dir.file_sha256
    monkeypatch.setattr(export_dir, "file_sha256", lambda path: read.append(path.name) or sha256(path))
    of_run = exported_run(open_model(runs[0], decode_hparams="beam_size=2"), lambda line: None)
    translator = Translator.of(of_run, EngineOptions())
    assert read.count("model.bin") == 1
    assert (of_run.engine, of_run.settings.alpha, translator.decode_hparams.beam_size) == ("ctranslate2", 1.5, 2)
    assert {path.name for path in of_run.files} >= {"export.json", "model.bin", "run.json"}
    read.clear()
    source = open_model(export_dir=of_run.export.path, decode_hparams=vars(of_run.settings))
    assert read == [] and str(source) == f"{of_run.export.path} ({of_run.checkpoint}, ctranslate2)"
    assert Translator.of(source, EngineOptions()).translate(LINES) == translator.translate(LINES)
    assert read.count("model.bin") == 1
