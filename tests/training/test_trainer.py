"""Training gives the same run on any number of devices, after any number of stops, in either precision."""

import numpy as np
import pytest
from support.checkpoints import assert_same_content, everything
from support.models import SMALL_MODEL

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.problem import get_problem
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.problems import algorithmic
from t2t_lite.registry import HPARAMS
from t2t_lite.runs import checkpoints
from t2t_lite.runs.evaluations import read_log

SMALL = SMALL_MODEL.replace(train_steps=40)


SMALL_DATA = "bpe_dropout=0.2,pair_concatenation=0.5,token_dropout=0.1,rdrop_alpha=1.0,batch_tokens=1024"


@pytest.mark.heavy
@pytest.mark.parametrize("changes", ["", SMALL_DATA], ids=["plain", "small data"])
def test_stopping_within_an_epoch_and_resuming_gives_the_same_parameters_bit_for_bit(
    run, changes, grammar_data, tmp_path
):
    settings = SMALL.override(changes)
    run(settings, grammar_data, tmp_path / "through")
    run(settings.replace(train_steps=20), grammar_data, tmp_path / "stopped")
    run(settings, grammar_data, tmp_path / "stopped")
    through = everything(tmp_path / "through" / "ckpt-40")
    epoch = next(value for name, value in through.items() if name.startswith("progress/epoch"))
    assert epoch >= 1  # so the stop and the end lie in different epochs
    assert_same_content(tmp_path / "stopped" / "ckpt-40", through)


@pytest.mark.heavy
def test_another_seed_is_another_run(run, grammar_data, tmp_path):
    short = SMALL.replace(train_steps=1)
    for name, seed in (("one", 1), ("two", 2)):
        run(short, grammar_data, tmp_path / name, random_seed=seed)
    one, two = (checkpoints.read(tmp_path / name / "ckpt-1", "model") for name in ("one", "two"))
    assert any(not np.array_equal(one[name], two[name]) for name in one)
    with pytest.raises(UserError, match="`random_seed=1`, not 2"):
        run(SMALL, grammar_data, tmp_path / "one", random_seed=2)


@pytest.mark.heavy
def test_training_learns_to_copy_and_the_translator_copies_unseen_words(run, tmp_path, monkeypatch):
    monkeypatch.setattr(algorithmic, "MAX_LENGTH", 6)
    monkeypatch.setattr(algorithmic.AlgorithmicCopy, "num_examples", {"train": 3000, "dev": 40, "test": 20})
    problem = get_problem("algorithmic_copy")
    generate(problem, tmp_path / "data", tmp_path, say=lambda line: None)
    hparams = SMALL.replace(train_steps=500, hidden_size=64, filter_size=128, batch_tokens=1024, residual_dropout=0.0)
    run(hparams, tmp_path / "data", tmp_path / "run", problem.name)
    lines = [example.inputs for example in problem.examples("test", {})]
    outputs = Translator.from_run_dir(tmp_path / "run").translate(lines)
    assert sum(line == output for line, output in zip(lines, outputs)) >= 0.9 * len(lines)


@pytest.mark.heavy
def test_bfloat16_loss_stays_within_two_percent_of_float32_over_200_steps(run, multi30k_data, tmp_path):
    hparams = HPARAMS["transformer_multi30k"]().replace(train_steps=200, batch_tokens=512)
    curves = {}
    for precision in ("float32", "mixed_bfloat16"):
        output_dir = tmp_path / precision
        run(hparams.replace(precision=precision), multi30k_data, output_dir, "multi30k_ende", log_step_count_steps=10)
        curves[precision] = [line["loss"] for line in read_log(output_dir).lines if line["part"] == "train"]
    assert len(curves["float32"]) == 21  # the first step, and every tenth
    worst = max(abs(b / a - 1) for a, b in zip(curves["float32"], curves["mixed_bfloat16"]))
    print(f"largest difference of the loss curves: {worst:.2%}")
    assert worst <= 0.02
