"""Metrics as users select them: t2t-lite-score, the trainer's model selection, and metrics of a plug-in."""

import json
import sys

import pytest

from t2t_lite.registry import METRICS
from t2t_lite.runs.checkpoint_files import list_checkpoints

OURS = '''
from t2t_lite.registry import METRICS
from t2t_lite.metric import Metric


@METRICS.register(higher_is_better=False, label="length error")
class LengthError(Metric):
    """The mean difference of the numbers of words, in percent of the reference."""

    def score(self, hypotheses, references):
        counts = [(len(ours.split()), len(theirs.split())) for ours, theirs in zip(hypotheses, references)]
        return 100 * sum(abs(ours - theirs) for ours, theirs in counts) / sum(theirs for _, theirs in counts)
'''


@pytest.fixture
def usr_dir(tmp_path):
    """A folder with one metric, which is forgotten at the end."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "length_error.py").write_text(OURS)
    yield folder
    METRICS.unregister("length_error")
    for name in [name for name in sys.modules if name.startswith("t2t_usr_dir_") and "_mine" in name]:
        del sys.modules[name]


@pytest.fixture
def files(tmp_path):
    """The flags of t2t-lite-score for two files of three lines."""
    (tmp_path / "hypothesis").write_text("The cat sat.\na dog\nOne two three\n")
    (tmp_path / "reference").write_text("The cat sat.\nA dog\nOne two three four five\n")
    return [f"--{name}={tmp_path / name}" for name in ("hypothesis", "reference")]


def test_score_prints_a_line_for_each_metric_in_the_order_given(command, files):
    result = command("score", *files, "--metric=ter,exact_match,bleu", "--lowercase")
    assert (result.returncode, result.stderr) == (0, "")
    ter, exact_match, bleu = result.stdout.splitlines()
    assert ter.startswith("TER|nrefs:1|case:lc|") and ter.endswith(f" = {100 * 2 / 10:.2f}")
    assert exact_match == f"exact_match = {100 * 2 / 3:.2f}"  # with --lowercase
    assert bleu.startswith("BLEU|nrefs:1|case:lc|")
    assert "exact_match = 33.33" in command("score", *files, "--metric=exact_match").stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--metric=chrff"], "--metric=chrff is unknown; did you mean 'chrf'"),
        (["--metric=bleu,"], "--metric= is unknown"),
        (["--metric=perplexity"], "--metric=perplexity needs the model"),
        (["--metric=ter", "--lowercase"], "--lowercase needs --metric=bleu or chrf or exact_match or paper_bleu"),
    ],
)
def test_metrics_that_cannot_score_files_are_one_line_errors(command, files, flags, message):
    result = command("score", *files, *flags)
    assert (result.returncode, result.stdout) == (2, "") and message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.heavy
def test_a_metric_of_a_plug_in_scores_and_selects_checkpoints(command, usr_dir, files, grammar_data, small_flags):
    mine = f"--t2t_usr_dir={usr_dir}"
    scored = command("score", mine, *files, "--metric=length_error,bleu")
    assert scored.stdout.splitlines()[0] == "length error = 20.00", scored.stderr  # 2 of 10 words are missing
    run = usr_dir.parent / "run"
    flags = (*small_flags, "--eval_decode", "--eval_metric=length_error", "--keep_best_n=1", "--keep_checkpoint_max=1")
    search = "--decode_hparams=beam_size=1,extra_length=5"
    result = command("trainer", mine, *flags, search, f"--data_dir={grammar_data}", f"--output_dir={run}")
    assert result.returncode == 0, result.stderr
    evaluations = json.loads((run / "evaluations.json").read_text())
    assert [list(figures) for figures in evaluations.values()] == [
        ["loss", "nll_loss", "perplexity", "accuracy", "bleu", "length_error"]
    ] * 3
    errors = {int(step): figures["length_error"] for step, figures in evaluations.items()}
    assert f"dev length error {errors[6]:.2f}" in result.stdout
    # The lowest is best; when step 6 was saved, the others had been evaluated.
    best = min((2, 4), key=errors.__getitem__)
    assert [step for step, _ in list_checkpoints(run)] == [best, 6]
    curve = command("benchmark", "--curve", f"--output_dir={run}")
    assert "length_error" in curve.stdout and f"{errors[6]:.3f}" in curve.stdout
