"""A run directory stands for a row only if its training and data are the row's; rows keep their ratios at any scale."""

import dataclasses
import json
import shutil

import pytest

from t2t_lite.config import HParams
from t2t_lite.data.generation.generate import generate
from t2t_lite.errors import UserError
from t2t_lite.problems import grammar
from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.paper import PAPER_FIGURES
from t2t_lite.reproduce.runs import SCALES, paper_changes, planned_runs
from t2t_lite.reproduce.tables import read_results
from t2t_lite.runs.run_dir import data_digests, open_run_dir


@pytest.fixture
def run(small_run, grammar_data, tmp_path):
    """The small run as the training of a row, with a copy of its data."""
    (row,) = planned_runs(3, SCALES["tiny"], ["base"], 1, tmp_path, {"data_dir": str(tmp_path / "data")}, {})
    shutil.copytree(grammar_data, tmp_path / "data")
    shutil.copytree(small_run, row.directory)
    hparams, tiny = (dataclasses.asdict(each) for each in (open_run_dir(small_run).hparams, HParams()))
    changes = {
        name: value for name, value in hparams.items() if value != tiny[name] and name not in ("model", "batch_by")
    }
    row = dataclasses.replace(row, hparams_set="transformer_tiny", changes=changes)
    assert row.hparams.replace(batch_by="both") == open_run_dir(small_run).hparams
    return row


@pytest.mark.parametrize("steps", [4, 8])
def test_a_training_of_another_length_is_refused(run, steps):
    assert run.is_trained()
    other = dataclasses.replace(run, changes={**run.changes, "train_steps": steps})
    expected = (
        rf"was not trained with the settings of this row \(train_steps: 6, not {steps}\); remove it, or pass another"
    )
    with pytest.raises(UserError, match=expected):
        other.is_trained()
    # As a run that was continued, and whose settings were set back by a shorter training, which made no step.
    (run.directory / "hparams.json").write_text(other.hparams.to_json())
    if steps < 6:
        with pytest.raises(UserError, match=expected):
            read_results([other])
    else:
        assert not other.is_trained()  # it goes on


def test_the_number_of_averaged_checkpoints_counts_where_they_are_averaged(run):
    averages = run.hparams.average_checkpoints + 1
    other = dataclasses.replace(run, changes={**run.changes, "average_checkpoints": averages})
    assert other.is_trained()
    with pytest.raises(UserError, match=rf"average_checkpoints: {averages - 1}, not {averages}"):
        dataclasses.replace(other, averages=True).is_trained()


class GrammarEnde(grammar.GrammarEnde):
    """The same training pairs and vocabulary, and fewer dev pairs."""

    num_examples = {"train": 1500, "dev": 10, "test": 20}


def test_other_data_is_refused(run, tmp_path):
    generate(GrammarEnde(), tmp_path / "other", tmp_path / "none", say=lambda line: None)
    (recorded,) = data_digests(run.directory)
    other = dataclasses.replace(run, data_flags={"data_dir": str(tmp_path / "other")})
    with pytest.raises(UserError, match=r"was not trained on the data in .*other \(checksum: (\w{12}), not \w+"):
        other.is_trained()
    about = run.directory / "run.json"
    content = json.loads(about.read_text())
    assert content.pop("data_sha256") == [recorded]
    about.write_text(json.dumps(content))  # as before version 0.9
    assert run.is_trained() and other.is_trained()  # the vocabulary is the same
    manifest = tmp_path / "other" / "manifest.grammar_ende.json"
    about_data = json.loads(manifest.read_text())
    about_data["vocabulary"]["sha256"] = "0" * 64
    manifest.write_text(json.dumps(about_data))
    with pytest.raises(
        UserError, match=r"checksum: \w{12}\+\w{12}, not 0{12}\+0{12}\); pass the data of the run with `data_dir`"
    ):
        other.is_trained()
    shutil.rmtree(tmp_path / "other")
    assert other.is_trained()  # the data may be gone


@pytest.mark.slow
def test_an_evaluation_of_other_texts_is_not_the_rows(run, command, tmp_path):
    flags = (f"--output_dir={run.directory}", "--split=dev", f"--decode_hparams={run.search}", "--xla_compile=False")
    done = command("eval", *flags, f"--data_dir={run.data_flags['data_dir']}", "--checkpoint_path=last")
    assert done.returncode == 0, done.stderr
    ((found, figures),) = read_results([run])
    assert found == run and figures["bleu"] >= 0.0
    text = tmp_path / "data" / "grammar_ende-dev.targets.txt"
    text.write_text(text.read_text().replace(".", "!"))
    assert read_results([run]) == []
    text.unlink()
    assert len(read_results([run])) == 1


@pytest.mark.heavy
def test_a_run_records_all_data_it_was_trained_on(small_run, grammar_data, command, small_flags, tmp_path):
    mine = shutil.copytree(small_run, tmp_path / "run")
    generate(GrammarEnde(), tmp_path / "other", tmp_path / "none", say=lambda line: None)
    flags = [flag for flag in small_flags if not flag.startswith("--train_steps")]
    for steps, data_dir in ((7, tmp_path / "other"), (8, grammar_data)):
        more = (f"--train_steps={steps}", f"--data_dir={data_dir}", f"--output_dir={mine}", "--schedule=train")
        assert command("trainer", *flags, *more).returncode == 0
    first, second = data_digests(mine)
    assert [first] == data_digests(small_run) and first != second


@pytest.mark.parametrize("row", PAPER_FIGURES)
def test_at_the_papers_scale_a_row_is_its_set(row):
    changed = HPARAMS["transformer_base"]().replace(**paper_changes(row, SCALES["paper"]))
    wanted = HPARAMS[row]()
    assert dataclasses.replace(changed, max_length=wanted.max_length) == wanted


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_rows_keep_their_ratios(scale):
    scale = SCALES[scale]
    base = HPARAMS[scale.base]()
    rows = {row: base.replace(**paper_changes(row, scale)) for row in PAPER_FIGURES}
    assert rows["transformer_base"] == base
    assert rows["transformer_h1"].num_heads == 1 and rows["transformer_h16"].num_heads == 16
    assert rows["transformer_dk16"].attention_key_size * 4 == base.hidden_size // base.num_heads
    assert rows["transformer_l2"].num_decoder_layers * 3 == base.num_decoder_layers
    assert rows["transformer_l8"].num_encoder_layers * 3 == base.num_encoder_layers * 4
    assert rows["transformer_ff4096"].filter_size == 2 * base.filter_size
    assert rows["transformer_hs256"].hidden_size * 2 == base.hidden_size
    assert rows["transformer_big"].train_steps == 3 * base.train_steps
    assert rows["transformer_dr0"].residual_dropout == 0.0
    assert rows["transformer_learned_positions"].position_encoding == "learned"
    assert rows["transformer_parsing"].max_length == 512
    # Every row but the base itself differs from it.
    assert [row for row, hparams in rows.items() if hparams == base] == ["transformer_base"]
