"""Positional encodings against their formulas, element by element; learned positions and their limit."""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.layers.positions import sinusoidal_halves, sinusoids
from t2t_lite.models.transformer import Transformer


@pytest.mark.parametrize("hidden_size", [2, 6, 512])
def test_each_element_follows_the_formula(hidden_size, paper):
    positions = [0, 1, 2, 17, 255]
    expected = [[paper.position(pos, channel, hidden_size) for channel in range(hidden_size)] for pos in positions]
    result = np.array(sinusoids(np.array(positions), hidden_size))
    assert result.dtype == np.float32
    # At an angle of 255, neighboring float32 numbers are 2e-5 apart.
    np.testing.assert_allclose(result, expected, atol=2e-5)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="hidden_size 7 is odd"):
        sinusoids(np.arange(3), 7)


@pytest.mark.parametrize("hidden_size", [4, 6, 512])
def test_each_element_of_tensor2tensors_halves_follows_the_formula(hidden_size):
    positions, half = [0, 1, 2, 17, 255], hidden_size // 2
    rates = [10000.0 ** (-i / (half - 1)) for i in range(half)]
    expected = [[f(pos * rate) for f in (math.sin, math.cos) for rate in rates] for pos in positions]
    result = np.array(sinusoidal_halves(np.array(positions), hidden_size))
    assert result.dtype == np.float32
    # At an angle of 255, neighboring float32 numbers are 2e-5 apart.
    np.testing.assert_allclose(result, expected, atol=2e-5)


@pytest.fixture(scope="module")
def model(paper):
    hparams = HParams(
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_size=8,
        filter_size=8,
        num_heads=2,
        position_encoding="learned",
        max_length=4,
    )
    model = Transformer(hparams, 11)
    model.build()
    paper.randomize(model)
    return model


def ids(length):
    return np.random.default_rng(1).integers(2, 11, (2, length)).astype("int32")


def test_a_model_adds_learned_positions_to_both_sides(model):
    before = np.array(model(ids(3), ids(4)))
    for side in ("inputs", "targets"):
        weight = model.position_encodings[side].weight
        kept = np.array(weight)
        weight.assign(kept[[1, 0, 2, 3]])
        assert np.abs(np.array(model(ids(3), ids(4))) - before).max() > 1e-3
        weight.assign(kept)
    np.testing.assert_array_equal(model(ids(3), ids(4)), before)


def test_a_model_and_its_graph_accept_every_length_up_to_max_length_only(model):
    graph = tf.function(model, input_signature=[tf.TensorSpec((None, None), tf.int32)] * 2)
    for source, target in ((4, 4), (2, 3)):
        np.testing.assert_allclose(graph(ids(source), ids(target)), model(ids(source), ids(target)), atol=1e-5)
    for source, target in ((5, 4), (4, 5), (9, 9)):
        with pytest.raises(ValueError, match=r"\d positions.*max_length=4"):
            model(ids(source), ids(target))
        with pytest.raises(tf.errors.InvalidArgumentError):
            graph(ids(source), ids(target))
