"""--recipe=paper: checkpoints, their average, the test split's scores and a report beside the paper's row."""

import json

import pytest

from t2t_lite.recipes import RECIPES, Recipe, choose_recipe
from t2t_lite.registry import HPARAMS

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def trained(command, grammar_data, small_flags, tmp_path_factory):
    """(run directory, output) of a training with the recipe."""
    run = tmp_path_factory.mktemp("recipe") / "run"
    flags = [flag.replace("--hparams=", "--hparams=average_checkpoints=2,") for flag in small_flags]
    done = command("trainer", *flags, f"--data_dir={grammar_data}", f"--output_dir={run}", "--recipe=paper")
    assert done.returncode == 0, done.stderr
    return run, done.stdout


def rows_of(report):
    lines = [line for line in report.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)}


def test_the_report_has_the_run_and_the_papers_row(trained, command):
    run, output = trained
    report = (run / "report.md").read_text()
    assert report in output
    rows = rows_of(report)
    (count,) = (line for line in output.splitlines() if " parameters, 1 CPU" in line)
    parameters = int(count.split(" parameters")[0].split()[-1].replace(",", ""))
    assert rows["parameters, millions"][0] == f"{parameters / 1e6:.1f}"
    assert rows["steps"] == ["6", "100,000"]
    papers = {"parameters, millions": "65", "seconds per step": "0.4", "training cost, FLOPs": "3.3e+18"}
    assert {name: rows[name][1] for name in papers} == papers
    evaluations = json.loads((run / "evaluations.json").read_text())
    assert rows["dev: perplexity, step 6"] == [f"{evaluations['6']['perplexity']:.2f}", "4.92"]
    assert "steps 4, 6" in report  # what was averaged


def test_the_scores_are_those_of_the_average_on_test(trained, command):
    run, _ = trained
    assert (run / "average-6.index").exists()
    (folder,) = (run / "scores").iterdir()
    assert folder.name.startswith("test.average-6.")
    stored = json.loads((folder / "scores.json").read_text())
    assert stored["decoded_by"]["decode_hparams"]["min_length"] == 0  # as in the paper, an output may be empty
    assert stored["checkpoint"]["members"] == [4, 6]
    rows = rows_of((run / "report.md").read_text())
    files = (f"--hypothesis={folder / 'hypotheses.txt'}", f"--reference={folder / 'references.txt'}")
    scored = command("score", *files, "--metric=chrf")
    assert f"= {rows['test: chrF2'][0].split()[0]}" in scored.stdout
    # The paper's BLEU is for its own problems.
    assert [name for name in rows if "BLEU" in name] == ["test: BLEU"]


def test_a_set_can_have_a_recipe(registered):
    own = Recipe(save_checkpoints_secs=60, split="dev")
    registered(HPARAMS, "with_recipe", HPARAMS["transformer_tiny"], recipe=own)
    for recipe, of_set, expected in ((None, "with_recipe", own), ("paper", "with_recipe", RECIPES["paper"])):
        assert choose_recipe(recipe, of_set) == expected
    for recipe, of_set in (("none", "with_recipe"), (None, "transformer_base"), (None, None)):
        assert choose_recipe(recipe, of_set) is None
    assert RECIPES["paper"] == Recipe()
