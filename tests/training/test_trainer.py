"""Training gives the same run on any number of devices, after any number of stops, in either precision."""

import random

import numpy as np
import pytest
import tensorflow as tf
from support.models import SMALL_MODEL

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.problem import Example, Problem, get_problem
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.registry import HPARAMS, PROBLEMS
from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoint_files import list_checkpoints


@PROBLEMS.register
class CopyWordsForTest(Problem):
    """Sentences of invented words, for a copy task."""

    vocab_size = 64
    byte_fallback = False
    num_shards = 2

    def examples(self, split, files):
        generator = random.Random(f"copy {split}")
        for _ in range({"train": 800, "dev": 40, "test": 20}[split]):
            words = " ".join(
                "".join(generator.choice("abcdefgh") for _ in range(2)) for _ in range(generator.randint(2, 6))
            )
            yield Example(words, words)


SMALL = SMALL_MODEL.replace(train_steps=40)


@pytest.fixture(scope="module")
def copy_data(shared_folders):
    problem = get_problem("copy_words_for_test")
    return shared_folders.get("copy_data", lambda folder: generate(problem, folder, folder, say=lambda line: None))


def last_arrays(run_dir):
    return checkpoints.read(list_checkpoints(run_dir)[-1][1], "model")


def all_arrays(path):
    """Everything in a checkpoint: weights, optimizer state and progress."""
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "changes",
    [{}, {"bpe_dropout": 0.2, "pair_concatenation": 0.5, "token_dropout": 0.1, "rdrop_alpha": 1.0}],
    ids=["plain", "small data"],
)
def test_stopping_within_an_epoch_and_resuming_gives_the_same_parameters_bit_for_bit(run, changes, copy_data, tmp_path):
    settings = SMALL.replace(**changes)
    run(settings, copy_data, tmp_path / "through")
    run(settings.replace(train_steps=20), copy_data, tmp_path / "stopped")
    run(settings, copy_data, tmp_path / "stopped")

    through = all_arrays(tmp_path / "through" / "ckpt-40")
    stopped = all_arrays(tmp_path / "stopped" / "ckpt-40")
    assert through.keys() == stopped.keys()
    epoch = next(value for name, value in through.items() if name.startswith("progress/epoch"))
    assert epoch >= 1  # so the stop and the end lie in different epochs
    for name, array in through.items():
        np.testing.assert_array_equal(array, stopped[name], err_msg=name)


@pytest.mark.heavy
def test_the_seed_makes_a_run_reproducible_and_another_seed_differs(run, copy_data, tmp_path):
    short = SMALL.replace(train_steps=3)
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        run(short, copy_data, tmp_path / name, random_seed=seed)
    one, again, two = (last_arrays(tmp_path / name) for name in ("one", "again", "two"))
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert any(not np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.heavy
def test_resuming_with_another_seed_is_refused(run, copy_data, tmp_path):
    run(SMALL.replace(train_steps=1), copy_data, tmp_path)
    with pytest.raises(UserError, match="`random_seed=1`, not 2"):
        run(SMALL.replace(train_steps=2), copy_data, tmp_path, random_seed=2)


@pytest.mark.heavy
def test_checkpoints_are_saved_by_steps_and_the_oldest_removed(run, copy_data, tmp_path):
    run(SMALL.replace(train_steps=9), copy_data, tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=3)
    assert [step for step, _ in list_checkpoints(tmp_path)] == [6, 8, 9]


@pytest.mark.heavy
def test_training_learns_to_copy_and_the_translator_copies_unseen_sentences(run, copy_data, tmp_path):
    hparams = SMALL.replace(train_steps=500, hidden_size=64, filter_size=128, batch_tokens=1024, residual_dropout=0.0)
    run(hparams, copy_data, tmp_path)
    lines = [example.inputs for example in get_problem("copy_words_for_test").examples("test", {})]
    outputs = Translator.from_run_dir(tmp_path).translate(lines)
    assert sum(line == output for line, output in zip(lines, outputs)) >= 0.9 * len(lines)


@pytest.mark.heavy
def test_bfloat16_loss_stays_within_two_percent_of_float32_over_200_steps(run, multi30k_data, tmp_path):
    hparams = HPARAMS["transformer_multi30k"]().replace(train_steps=200, batch_tokens=512)
    curves = {}
    for precision in ("float32", "mixed_bfloat16"):
        output_dir = tmp_path / precision
        run(hparams.replace(precision=precision), multi30k_data, output_dir, "multi30k_ende", log_step_count_steps=10)
        curves[precision] = [
            float(tf.make_ndarray(value.tensor))
            for path in (output_dir / "train").iterdir()
            for event in tf.compat.v1.train.summary_iterator(str(path))
            for value in event.summary.value
            if value.tag == "loss"
        ]
    assert len(curves["float32"]) == 21  # the first step, and every tenth
    worst = max(abs(b / a - 1) for a, b in zip(curves["float32"], curves["mixed_bfloat16"]))
    print(f"largest difference of the loss curves: {worst:.2%}")
    assert worst <= 0.02
