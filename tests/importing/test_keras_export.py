"""Exports in the format keras become run directories again; other exports and options are refused in one line."""

import json
import shutil

import pytest

import t2t_lite as t2t
from t2t_lite.errors import UserError


@pytest.fixture(scope="module")
def export(small_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keras") / "export"
    t2t.export(small_run, folder, format="keras")
    return folder


def test_an_imported_export_decodes_as_its_run_does(export, small_run, tmp_path, command):
    result = command("import_model", "--from=keras", export, f"--output_dir={tmp_path}/run")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"{tmp_path}/run/ckpt-6: ")
    assert result.stdout.endswith(" parameters, problem grammar_ende\n")
    lines = ["The old man sees a dog.", "a b c"]
    given = [t2t.Translator.from_run_dir(path).n_best(lines, beam_size=2) for path in (small_run, tmp_path / "run")]
    assert given[0] == given[1]
    # The export has the settings, in float32.
    hparams = [json.loads((path / "hparams.json").read_text()) for path in (small_run, tmp_path / "run")]
    assert hparams[1] == hparams[0] | {"precision": "float32"}


def test_what_cannot_be_imported_is_refused_in_one_line(export, tmp_path):
    def refused(source=export, **options):
        with pytest.raises(UserError) as error:
            t2t.import_model(source, tmp_path / "run", **{"kind": "keras"} | options)
        assert not (tmp_path / "run").exists()
        return str(error.value)

    assert refused(vocab_file="bytes") == "`vocab_file` applies to tensor2tensor's models only; remove it"
    assert refused(problem="grammar").startswith("unknown problem 'grammar'")
    assert refused(kind="npz") == "`kind` takes t2t or keras, not 'npz'"
    assert (
        refused(tmp_path)
        == f"{tmp_path} is not an export directory: it has no export.json; create one with t2t-lite-export"
    )
    other = shutil.copytree(export, tmp_path / "other")
    content = json.loads((export / "export.json").read_text()) | {"format": "saved_model"}
    (other / "export.json").write_text(json.dumps(content))
    assert refused(other) == f"{other} has the format saved_model; export the run with --format=keras"
