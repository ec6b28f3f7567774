"""What a run directory says of itself, and what may change when a run goes on."""

import json

import pytest

from t2t_lite.config import HParams
from t2t_lite.data.problem import get_problem
from t2t_lite.errors import UserError
from t2t_lite.runs.run_dir import open_run_dir, prepare_run_dir, with_order_of_run

HPARAMS = HParams(hidden_size=32, num_heads=4, batch_by="both")
PROBLEM = get_problem("grammar_ende")


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "data" / "vocab.grammar_ende.1600.subwords"
    path.parent.mkdir()
    path.write_bytes(b"pieces")
    return path


@pytest.fixture
def run(tmp_path, vocabulary):
    return prepare_run_dir(tmp_path / "run", HPARAMS, PROBLEM, vocabulary)


def refusal(function, *arguments):
    with pytest.raises(UserError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_run_directory_describes_itself_and_can_be_moved(run, vocabulary, tmp_path):
    assert sorted(path.name for path in run.path.iterdir()) == ["hparams.json", "run.json", vocabulary.name]
    vocabulary.unlink()
    run.path.rename(tmp_path / "moved")
    opened = open_run_dir(tmp_path / "moved")
    assert opened.path == opened.vocabulary.parent == tmp_path / "moved"
    assert opened.hparams == HPARAMS and opened.problem.name == "grammar_ende"
    assert opened.vocabulary.read_bytes() == opened.inputs_vocabulary.read_bytes() == b"pieces"


def test_the_languages_of_the_users_text_are_recorded(tmp_path, vocabulary):
    own = get_problem("text_pairs_rev", languages="zh-en")
    prepare_run_dir(tmp_path / "run", HPARAMS, own, vocabulary)
    assert open_run_dir(tmp_path / "run").problem.output_language == "zh"
    prepare_run_dir(tmp_path / "run", HPARAMS, get_problem("text_pairs_rev"), vocabulary)  # resumed without the flag
    assert open_run_dir(tmp_path / "run").problem.output_language == "zh"
    prepare_run_dir(tmp_path / "unknown", HPARAMS, get_problem("text_pairs"), vocabulary)
    prepare_run_dir(tmp_path / "known", HPARAMS, PROBLEM, vocabulary)
    for name, language in (("unknown", ""), ("known", "de")):
        assert "language" not in (tmp_path / name / "run.json").read_text()
        assert open_run_dir(tmp_path / name).problem.output_language == language


@pytest.mark.parametrize("change", [{"train_steps": 7}, {"average_checkpoints": 3}])
def test_training_length_and_averaging_may_change(run, vocabulary, change):
    changed = HPARAMS.replace(**change)
    assert prepare_run_dir(run.path, changed, PROBLEM, vocabulary).hparams == changed
    assert open_run_dir(run.path).hparams == changed


def test_a_run_of_a_version_without_batch_by_keeps_its_order_of_the_data(run, vocabulary):
    stored = json.loads((run.path / "hparams.json").read_text(encoding="utf-8"))
    del stored["batch_by"]
    (run.path / "hparams.json").write_text(json.dumps(stored), encoding="utf-8")
    assert open_run_dir(run.path).hparams.batch_by == "targets"
    for other in ("both", "shapes"):
        wanted = HPARAMS.replace(batch_by=other)
        assert f"batch_by: targets, not {other}" in refusal(prepare_run_dir, run.path, wanted, PROBLEM, vocabulary)
    for _ in range(2):  # the first time writes the setting
        kept = prepare_run_dir(run.path, HPARAMS.replace(batch_by="auto"), PROBLEM, vocabulary).hparams
        assert kept == HPARAMS.replace(batch_by="targets")


def test_the_order_of_the_data_is_chosen_for_new_runs_only(run, vocabulary, tmp_path):
    usual = HParams()
    assert usual.batch_by == "auto" and with_order_of_run(run.path, usual).batch_by == "both"
    assert with_order_of_run(tmp_path / "new", usual).batch_by == "both"
    assert prepare_run_dir(tmp_path / "new", usual, PROBLEM, vocabulary).hparams.batch_by == "both"
    other = HPARAMS.replace(batch_by="targets")
    assert with_order_of_run(run.path, other) == other
    assert "batch_by: both, not targets" in refusal(prepare_run_dir, run.path, other, PROBLEM, vocabulary)


@pytest.mark.parametrize("name", ["hparams.json", "run.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"x": 1}', b"\0\0\0\0", b"\xff\xfe{}"])
def test_a_damaged_file_is_an_error_that_names_it(run, name, content):
    (run.path / name).write_bytes(content)
    assert str(run.path / name) in refusal(open_run_dir, run.path)


@pytest.mark.parametrize("own", [[1], "x", {"beam_size": "x"}, {"no_such": 1}])
def test_search_settings_of_the_run_that_cannot_be_read_are_an_error_that_names_the_file(run, own):
    about = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(about | {"decode_hparams": own}))
    assert f"{run.path / 'run.json'} is damaged: decode_hparams" in refusal(open_run_dir, run.path)


def test_an_unregistered_problem_is_an_error_that_names_the_file_and_the_problem(run):
    text = (run.path / "run.json").read_text()
    (run.path / "run.json").write_text(text.replace("grammar_ende", "grammar_nowhere"))
    message = refusal(open_run_dir, run.path)
    assert "grammar_nowhere" in message and str(run.path) in message


def test_a_directory_without_run_json_is_not_opened_but_completed_if_it_has_no_checkpoints(run, vocabulary):
    (run.path / "run.json").unlink()
    assert "run.json" in refusal(open_run_dir, run.path)
    (run.path / "hparams.json").write_text("{")
    assert prepare_run_dir(run.path, HPARAMS, PROBLEM, vocabulary).hparams == HPARAMS
    (run.path / "run.json").unlink()
    (run.path / "ckpt-5.index").write_bytes(b"")
    assert "run.json" in refusal(prepare_run_dir, run.path, HPARAMS, PROBLEM, vocabulary)


@pytest.fixture
def vocabularies(tmp_path):
    """(that of the inputs, that of the targets), in the direction of the run's problem."""
    paths = [tmp_path / "data" / f"vocab.grammar_ende.1600.{side}.subwords" for side in ("inputs", "targets")]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes(path.name.encode())
    return paths


@pytest.fixture
def separate_run(tmp_path, vocabularies):
    inputs, targets = vocabularies
    return prepare_run_dir(tmp_path / "run", HPARAMS, PROBLEM, targets, inputs_vocabulary=inputs)


def test_a_shared_vocabulary_is_used_for_both_sides(run, vocabulary):
    assert run.inputs_vocabulary == run.vocabulary
    before = (run.path / "run.json").read_bytes()
    # What is written does not depend on how it was said, so directories of before are opened as they were.
    assert "inputs_vocabulary" not in json.loads(before)
    prepare_run_dir(run.path, HPARAMS, PROBLEM, vocabulary, inputs_vocabulary=vocabulary)
    assert (run.path / "run.json").read_bytes() == before


def test_both_separate_vocabularies_are_copied_and_distinguished(separate_run, vocabularies):
    inputs, targets = vocabularies
    assert separate_run.inputs_vocabulary == separate_run.path / inputs.name
    assert separate_run.vocabulary == separate_run.path / targets.name
    names = sorted(path.name for path in separate_run.path.iterdir())
    assert names == ["hparams.json", "run.json", inputs.name, targets.name]
    before = {path.name: path.read_bytes() for path in separate_run.path.iterdir()}
    prepare_run_dir(separate_run.path, HPARAMS, PROBLEM, targets, inputs_vocabulary=inputs)
    assert {path.name: path.read_bytes() for path in separate_run.path.iterdir()} == before
    assert separate_run.inputs_vocabulary.read_bytes() == inputs.name.encode()
    assert open_run_dir(separate_run.path).inputs_vocabulary == separate_run.inputs_vocabulary


@pytest.mark.parametrize("changed", [0, 1])
def test_another_vocabulary_is_refused_and_both_files_are_named(separate_run, vocabularies, changed, snapshot):
    vocabularies[changed].write_bytes(b"other tokens")
    inputs, targets = vocabularies
    before = snapshot(separate_run.path)
    message = refusal(prepare_run_dir, separate_run.path, HPARAMS, PROBLEM, targets, 1, inputs)
    for path in (vocabularies[changed], separate_run.path / vocabularies[changed].name):
        assert str(path) in message
    assert str(vocabularies[1 - changed]) not in message
    assert snapshot(separate_run.path) == before
