"""Averages of checkpoints against NumPy's mean."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.checkpoints import TrainingState
from t2t_lite.runs.selection import average_checkpoints
from t2t_lite.training.step import build_model

TINY = HParams(num_encoder_layers=1, num_decoder_layers=1, hidden_size=8, filter_size=12, num_heads=2)


def restore_model(model, path):
    checkpoints.restore(path, "model", checkpoints.by_name(model.variables))


def make(hparams=TINY):
    model, optimizer = build_model(hparams, 11, tf.distribute.get_strategy(), 1)
    return model, TrainingState(model, optimizer)


@pytest.fixture(scope="module")
def tiny():
    return make()


def save_random(directory, step, model, state):
    """Writes a checkpoint of random weights."""
    rng = np.random.default_rng(step)
    for variable in model.variables:
        variable.assign(rng.normal(size=variable.shape).astype("float32"))
    state.optimizer.iterations.assign(step)
    state.save(directory, keep_max=100)


@pytest.fixture
def directory(tmp_path, tiny):
    """Four checkpoints, steps 10 to 40."""
    for step in (10, 20, 30, 40):
        save_random(tmp_path, step, *tiny)
    return tmp_path


@pytest.mark.parametrize("n", [1, 3, 4])
def test_the_average_is_the_mean_of_the_last_n(directory, n):
    path, steps = average_checkpoints(directory, n)
    assert path == directory / "average-40"
    assert steps == [10, 20, 30, 40][-n:]
    parts = [checkpoints.read(directory / f"ckpt-{step}", "model") for step in steps]
    average = checkpoints.read(path, "model")
    assert average.keys() == parts[0].keys()
    for name, array in average.items():
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, np.mean([part[name] for part in parts], axis=0), atol=1e-6, err_msg=name)


def test_a_model_is_restored_from_an_average(directory):
    path, _ = average_checkpoints(directory, 2)
    model, _ = make()
    restore_model(model, path)
    for variable in model.variables:
        parts = [
            checkpoints.read(directory / f"ckpt-{step}", "model")[variable.path.replace("/", ".")] for step in (30, 40)
        ]
        np.testing.assert_allclose(np.array(variable), np.mean(parts, axis=0), atol=1e-6)


def test_training_does_not_resume_from_an_average(directory):
    average_checkpoints(directory, 2)
    assert [step for step, _ in list_checkpoints(directory)] == [10, 20, 30, 40]
    assert list_checkpoints(directory, "average") == [(40, directory / "average-40")]
    _, state = make()
    assert state.restore(directory) == directory / "ckpt-40"
    (directory / "ckpt-40.index").unlink()
    assert state.restore(directory) == directory / "ckpt-30"


def test_an_average_without_its_members_as_version_0_4_wrote_it_is_read(directory):
    model, _ = make()
    path = checkpoints.write(directory / "average-40", model=checkpoints.by_name(model.variables))
    restore_model(model, path)
    assert checkpoints.average_members(path) == []
    with pytest.raises(UserError, match="average of weights, for inference only"):
        checkpoints.refuse_average(path)


def test_a_new_average_replaces_the_old_one(directory, tiny):
    average_checkpoints(directory, 2)
    save_random(directory, 50, *tiny)
    path, steps = average_checkpoints(directory, 2)
    assert steps == [40, 50]
    assert list_checkpoints(directory, "average") == [(50, path)]
    again, _ = average_checkpoints(directory, 3)
    assert again == path.with_name("average-50.v2")
    assert list_checkpoints(directory, "average") == [(50, again)]
    parts = [checkpoints.read(directory / f"ckpt-{step}", "model") for step in (30, 40, 50)]
    for name, array in checkpoints.read(again, "model").items():
        np.testing.assert_allclose(array, np.mean([part[name] for part in parts], axis=0), atol=1e-6)


def test_checkpoints_of_different_models_are_not_averaged(tmp_path, tiny):
    save_random(tmp_path, 10, *tiny)
    save_random(tmp_path, 20, *make(TINY.replace(filter_size=16)))
    with pytest.raises(UserError, match="ckpt-20 has other variables"):
        average_checkpoints(tmp_path, 2)
    assert list_checkpoints(tmp_path, "average") == []
