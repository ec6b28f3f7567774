"""Every choice of a setting gives other logits, the same with TensorFlow and with JAX."""

import functools
import itertools
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from t2t_lite.config import HParams, choices
from t2t_lite.layers.beam_ancestry import initial_ancestry, next_ancestry
from t2t_lite.models.building import make_model

BASE = HParams(
    num_encoder_layers=2,
    num_decoder_layers=2,
    hidden_size=16,
    filter_size=24,
    num_heads=4,
    neighborhood_size=4,
    parameter_heads=2,
    parameter_head_size=4,
    parameter_pairs=6,
    max_relative_position=3,
    max_length=12,
)
# Every value of every setting that selects a part of the model.
CHANGES = [{name: word} for name, words in choices().items() if name != "precision" for word in words]
CHANGES += [{"hard_alignment_token": 5}, {"hard_alignment_token": 5, "bracket_labels": 2, "source_word_token": 7}]
INPUTS = np.array([[3, 4, 5, 6, 7, 1], [7, 8, 1, 0, 0, 0]], "int32")
TARGETS = np.array([[9, 2, 12, 1, 0, 0, 0], [5, 5, 3, 4, 6, 2, 1]], "int32")


def logits(changes):
    """The logits of a model whose weights are a function of their names, from one pass and step by step."""
    return _logits(*changes.items())


@functools.cache
def _logits(*changes):
    model = make_model(BASE.replace(**dict(changes)), 13)
    for variable in model.weights:
        rng = np.random.default_rng(list(variable.path.encode()))
        variable.assign(rng.normal(0.0, variable.shape[0] ** -0.5, variable.shape).astype("float32"))
    at_once = as_array(model(INPUTS, TARGETS))
    encoded_source, state = model.start_decoding(INPUTS, 1, TARGETS.shape[1])
    steps, before = [], np.zeros((len(TARGETS), 1), "int32")
    ancestry = initial_ancestry(len(TARGETS), 1, TARGETS.shape[1])
    for position in range(TARGETS.shape[1]):
        ancestry = next_ancestry(ancestry, np.zeros((len(TARGETS), 1), "int32"), position)
        step, state, _ = model.decode_step(before, position, encoded_source, state, ancestry)
        steps.append(as_array(step))
        before = TARGETS[:, position, None]
    return np.stack([at_once, np.concatenate(steps, axis=1)])


def as_array(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))


@pytest.mark.slow
@pytest.mark.parametrize("name", choices())
def test_every_two_choices_of_a_setting_give_different_logits(name):
    results = {word: logits({name: word})[0] for word in choices()[name]}
    for one, other in itertools.combinations(results, 2):
        difference = np.abs(results[one] - results[other])[TARGETS > 0]
        assert difference.max() > 1e-4, f"{name}={one} and {other} compute the same"
        assert np.isfinite(difference).all()


@pytest.fixture(scope="module")
def under_jax(tmp_path_factory):
    """The logits of all models, [models, 2, batch, length, vocab], from a process with Keras on JAX."""
    pytest.importorskip("jax", reason="needs jax (pip install -e '.[dev]')")
    file = tmp_path_factory.mktemp("backends") / "logits.npy"
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    environment |= {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # each operation is compiled, for each shape
    done = subprocess.run(
        [sys.executable, __file__, file], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["jax", "False"]  # the backend, and whether TensorFlow was loaded
    return np.load(file)


@pytest.mark.heavy
@pytest.mark.parametrize("index", range(len(CHANGES)), ids=lambda index: str(CHANGES[index]))
def test_logits_are_the_same_under_tensorflow_and_jax(index, under_jax):
    assert keras.backend.backend() == "tensorflow"
    here = logits(CHANGES[index])
    assert here.std() > 0.1
    np.testing.assert_allclose(under_jax[index], here, atol=1e-5)


if __name__ == "__main__":
    np.save(sys.argv[1], np.stack([logits(changes) for changes in CHANGES]))
    print(keras.backend.backend(), "tensorflow" in sys.modules)
