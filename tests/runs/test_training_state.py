"""Checkpoints restore what was saved, only complete ones count, and averages are NumPy's mean; earlier versions."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support.checkpoints import assert_same_content as assert_same

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoint_files, checkpoints
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.checkpoints import BackgroundWriter, TrainingState
from t2t_lite.runs.selection import average_checkpoints
from t2t_lite.training.step import build_model

TINY = HParams(num_encoder_layers=1, num_decoder_layers=1, hidden_size=8, filter_size=12, num_heads=2)


def restore_model(model, path):
    checkpoints.restore(path, "model", checkpoints.by_name(model.variables))


def make(seed=1, hparams=TINY):
    """A model and the state of its training."""
    model, optimizer = build_model(hparams, 11, tf.distribute.get_strategy(), seed)
    return model, TrainingState(model, optimizer)


def make_step(model, state, seed=0):
    """One optimizer step with random gradients."""
    rng = np.random.default_rng(seed)
    gradients = [tf.constant(rng.normal(size=v.shape).astype("float32")) for v in model.trainable_variables]
    state.optimizer.apply(tf.distribute.get_strategy(), gradients, tf.constant(1.0), tf.constant(1.0))
    state.optimizer.count(tf.constant(True))


def values(variables):
    return {variable.path: np.array(variable) for variable in variables}


def arrays(variables):
    return {name: np.array(variable) for name, variable in variables.items()}


@pytest.fixture
def saved(tmp_path):
    """A directory with one checkpoint after 2 steps, and the model and state that it was saved from."""
    model, state = make()
    make_step(model, state, 1)
    make_step(model, state, 2)
    state.epoch.assign(3)
    state.position.assign(17)
    path = state.save(tmp_path, keep_max=5)
    assert path == tmp_path / "ckpt-2"
    return tmp_path, model, state


def test_restore_brings_back_weights_optimizer_and_data_position_or_the_weights_alone(saved):
    directory, model, state = saved
    average_checkpoints(directory, 1)  # training does not go on from an average
    other_model, other_state = make(seed=2)
    assert not np.array_equal(np.array(other_model.variables[0]), np.array(model.variables[0]))
    restore_model(other_model, directory / "ckpt-2")
    assert_same(values(model.variables), values(other_model.variables))
    assert other_state.step == 0
    assert other_state.restore(directory) == directory / "ckpt-2"
    assert_same(values(model.variables), values(other_model.variables))
    assert_same(arrays(state.optimizer.state), arrays(other_state.optimizer.state))
    assert (other_state.step, int(other_state.epoch), int(other_state.position)) == (2, 3, 17)


def test_an_empty_or_missing_directory_restores_nothing(tmp_path):
    model, state = make()
    before = values(model.variables)
    assert state.restore(tmp_path) is None
    assert state.restore(tmp_path / "missing") is None
    assert_same(before, values(model.variables))


def test_only_the_last_keep_max_checkpoints_are_kept(tmp_path):
    model, state = make()
    for seed in range(4):
        make_step(model, state, seed)
        state.save(tmp_path, keep_max=2)
    assert list_checkpoints(tmp_path) == [(3, tmp_path / "ckpt-3"), (4, tmp_path / "ckpt-4")]
    assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == {"ckpt-3", "ckpt-4"}


def test_the_checkpoint_just_written_is_kept_when_later_ones_are_damaged(tmp_path):
    _, state = make()
    for step in (200, 150):
        state.optimizer.iterations.assign(step)
        state.save(tmp_path, keep_max=1)
        if step == 200:
            cut_short(tmp_path / "ckpt-200.data-00000-of-00001")
    _, other = make()
    other.restore(tmp_path, warn=lambda line: None)
    assert other.step == 150


def test_an_average_written_by_another_process_meanwhile_is_kept(tmp_path, monkeypatch):
    model, _ = make()
    variables = checkpoints.by_name(model.variables)
    checkpoints.write_average(tmp_path / "average-100", variables)
    real = checkpoint_files.publish

    def publish(partial, path, members):
        # As if another process had published its own checkpoint at this moment.
        for ending in (checkpoint_files.DATA, checkpoint_files.INDEX):
            shutil.copy(tmp_path / f"average-100{ending}", tmp_path / f"average-210{ending}")
        return real(partial, path, members)

    monkeypatch.setattr(checkpoint_files, "publish", publish)
    checkpoints.write_average(tmp_path / "average-200", variables)
    assert [step for step, _ in list_checkpoints(tmp_path, "average")] == [200, 210]


def test_a_checkpoint_without_an_index_file_is_ignored(saved):
    directory, model, state = saved
    make_step(model, state, 3)
    state.save(directory, keep_max=5)
    (directory / "ckpt-3.index").unlink()
    assert [step for step, _ in list_checkpoints(directory)] == [2]
    _, other = make()
    other.restore(directory)
    assert other.step == 2


@pytest.mark.parametrize("changes", ["filter_size=13", "num_encoder_layers=2"])
def test_a_checkpoint_of_another_model_shape_is_refused_with_its_path(saved, changes):
    directory, _, _ = saved
    other_model, other_state = make(hparams=TINY.override(changes))
    for restore in (lambda: restore_model(other_model, directory / "ckpt-2"), lambda: other_state.restore(directory)):
        with pytest.raises(UserError, match="does not fit") as caught:
            restore()
        assert str(directory / "ckpt-2") in str(caught.value) and "\n" not in str(caught.value)


def cut_short(file):
    file.write_bytes(file.read_bytes()[:100])


def flip_a_byte(file):
    content = bytearray(file.read_bytes())
    content[8] ^= 0xFF  # in the first variable; TensorFlow's own records at the end are not read
    file.write_bytes(content)


DATA = ".data-00000-of-00001"
DAMAGES = [(cut_short, DATA), (cut_short, ".index"), (flip_a_byte, DATA), (flip_a_byte, ".index"), (Path.unlink, DATA)]


@pytest.mark.parametrize(("damage", "ending"), DAMAGES)
def test_a_damaged_checkpoint_is_an_error_that_names_it(saved, ending, damage):
    directory, _, state = saved
    damage(directory / ("ckpt-2" + ending))
    with pytest.raises(UserError, match="damaged") as caught:
        state.restore(directory)
    assert str(directory / "ckpt-2") in str(caught.value) and "\n" not in str(caught.value)


def test_leftovers_of_a_killed_run_do_not_prevent_the_next_save(saved):
    directory, _, state = saved
    (directory / "incomplete-ckpt-9_temp").mkdir()
    (directory / "incomplete-ckpt-9_temp" / "part").write_bytes(b"half")
    (directory / "incomplete-ckpt-9.index").write_bytes(b"half")
    state.save(directory, 5)
    assert not list(directory.glob("incomplete-*"))


@pytest.mark.parametrize("optimizer", ["adam", "adafactor"])
def test_a_snapshot_keeps_the_state_while_training_goes_on(optimizer, tmp_path):
    hparams = TINY.replace(ema_decay=0.5, optimizer=optimizer)
    model, state = make(hparams=hparams)
    make_step(model, state, 1)
    expected, moments = values(model.variables), arrays(state.optimizer.state)
    with state.optimizer.averages_in_place():
        averages = values(model.variables)
    snapshot = state.snapshot()
    for seed in (2, 3):
        make_step(model, state, seed)
    assert not np.array_equal(np.array(model.variables[0]), next(iter(expected.values())))
    assert snapshot.write(tmp_path, keep_max=1) == tmp_path / "ckpt-1"
    other_model, other_state = make(seed=2, hparams=hparams)
    other_state.restore(tmp_path)
    assert_same(expected, values(other_model.variables))
    assert_same(moments, arrays(other_state.optimizer.state))
    restore_model(other_model, tmp_path / "average-1")
    assert_same(averages, values(other_model.variables))
    assert state.step == 3


def test_a_checkpoint_that_a_thread_writes_is_taken_once_and_its_errors_are_raised_there():
    writer, may_end = BackgroundWriter(), threading.Event()

    def write():
        may_end.wait()
        return Path("ckpt-5")

    def fail():
        raise UserError("the disk is full")

    assert writer.take(wait=True) is None
    writer.start(5, write)
    assert writer.take(wait=False) is None
    with pytest.raises(RuntimeError):
        writer.start(6, write)
    may_end.set()
    assert writer.take(wait=True) == (5, Path("ckpt-5"))
    assert writer.take(wait=True) is None
    writer.start(6, fail)
    writer.wait()
    with pytest.raises(UserError, match="the disk is full"):
        writer.take(wait=False)
    writer.start(6, lambda: Path("ckpt-6"))
    writer.wait()
    assert writer.take(wait=False) == (6, Path("ckpt-6"))


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
