"""Averages of checkpoints against NumPy's mean; names of variables that earlier versions used."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.selection import average_checkpoints

NAMES = ("transformer.embedding.weight", "transformer.decoder_0.feed_forward.bias")
OLD, NEW = "transformer.decoder_0.memory_attention.query", "transformer.decoder_0.cross_attention.query"


def written(directory, step, names=NAMES, size=3):
    """Writes a checkpoint of random weights, and returns them."""
    rng = np.random.default_rng(step)
    weights = {name: rng.normal(size=(2, size)).astype("float32") for name in names}
    variables = {name: tf.Variable(value) for name, value in weights.items()}
    checkpoints.write(directory / f"ckpt-{step}", model=variables)
    return weights


@pytest.fixture
def run(tmp_path):
    """A directory with four checkpoints, and their weights by step."""
    return tmp_path, {step: written(tmp_path, step) for step in (10, 20, 30, 40)}


def assert_mean(path, weights, steps):
    """Asserts that a model with this checkpoint has the mean of some weights."""
    variables = {name: tf.Variable(tf.zeros_like(weights[steps[0]][name])) for name in weights[steps[0]]}
    checkpoints.restore(path, "model", variables)
    for name, variable in variables.items():
        expected = np.mean([weights[step][name] for step in steps], axis=0)
        np.testing.assert_allclose(variable, expected, atol=1e-6, err_msg=name)
    assert {array.dtype for array in checkpoints.read(path, "model").values()} == {np.dtype("float32")}


@pytest.mark.parametrize("n", [1, 3, 4])
def test_the_average_is_the_mean_of_the_last_n_and_is_not_listed_with_checkpoints(run, n):
    directory, weights = run
    path, steps = average_checkpoints(directory, n)
    assert (path, steps) == (directory / "average-40", [10, 20, 30, 40][-n:])
    assert_mean(path, weights, steps)
    assert [step for step, _ in list_checkpoints(directory)] == [10, 20, 30, 40]
    assert list_checkpoints(directory, "average") == [(40, path)]


def test_a_new_average_replaces_the_old_one(run):
    directory, weights = run
    average_checkpoints(directory, 2)
    weights[50] = written(directory, 50)
    path, steps = average_checkpoints(directory, 2)
    assert steps == [40, 50]
    assert list_checkpoints(directory, "average") == [(50, path)]
    again, _ = average_checkpoints(directory, 3)
    assert again == path.with_name("average-50.v2")
    assert list_checkpoints(directory, "average") == [(50, again)]
    assert_mean(again, weights, [30, 40, 50])


def test_an_average_without_its_members_as_version_0_4_wrote_it_is_read(run):
    directory, weights = run
    variables = {name: tf.Variable(value) for name, value in weights[40].items()}
    path = checkpoints.write(directory / "average-40", model=variables)
    assert_mean(path, weights, [40])
    assert checkpoints.average_members(path) == []
    with pytest.raises(UserError, match="average of weights, for inference only"):
        checkpoints.refuse_average(path)


@pytest.mark.parametrize("other", [{"size": 4}, {"names": (*NAMES, NEW)}], ids=str)
def test_checkpoints_of_different_models_are_not_averaged(tmp_path, other):
    written(tmp_path, 10)
    written(tmp_path, 20, **other)
    with pytest.raises(UserError, match="ckpt-20 has other variables"):
        average_checkpoints(tmp_path, 2)
    assert list_checkpoints(tmp_path, "average") == []


def test_old_names_of_variables_are_restored_and_averaged_as_the_new_ones(tmp_path):
    old, new = written(tmp_path, 1, [OLD])[OLD], written(tmp_path, 2, [NEW])[NEW]
    for name in (NEW, OLD):  # a model may use the old name itself
        variable = tf.Variable(tf.zeros_like(old))
        checkpoints.restore(tmp_path / "ckpt-1", "model", {name: variable})
        np.testing.assert_array_equal(variable, old)
    path, _ = average_checkpoints(tmp_path, 2)
    assert_mean(path, {1: {NEW: old}, 2: {NEW: new}}, [1, 2])
    assert checkpoints.read(path, "model").keys() == {NEW}
