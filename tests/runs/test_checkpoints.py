"""Names of variables that earlier versions used."""

import numpy as np
import tensorflow as tf

from t2t_lite.runs import checkpoints
from t2t_lite.runs.selection import average_checkpoints

OLD, NEW = "transformer.decoder_0.memory_attention.query", "transformer.decoder_0.cross_attention.query"


def written(directory, step, name, value):
    return checkpoints.write(directory / f"ckpt-{step}", model={name: tf.Variable([value])})


def test_a_variable_under_its_old_name_is_restored(tmp_path):
    variable = tf.Variable([0.0])
    checkpoints.restore(written(tmp_path, 1, OLD, 3.0), "model", {NEW: variable})
    np.testing.assert_array_equal(variable, [3.0])


def test_a_model_that_uses_the_old_name_itself_keeps_it(tmp_path):
    variable = tf.Variable([0.0])
    checkpoints.restore(written(tmp_path, 1, OLD, 3.0), "model", {OLD: variable})
    np.testing.assert_array_equal(variable, [3.0])


def test_checkpoints_with_old_and_new_names_are_averaged(tmp_path):
    written(tmp_path, 1, OLD, 3.0)
    written(tmp_path, 2, NEW, 5.0)
    path, steps = average_checkpoints(tmp_path, 2)
    assert steps == [1, 2]
    assert checkpoints.read(path, "model") == {NEW: np.array([4.0])}
