"""Positional encodings against their formulas, element by element; learned positions and their limit."""

import cmath
import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.layers.positions import LearnedPositions, rotate, sinusoidal_halves, sinusoids
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


# tensor2tensor's variant.


@pytest.mark.parametrize("hidden_size", [4, 6, 512])
def test_each_element_of_sinusoidal_halves_follows_the_formula(hidden_size):
    positions, half = [0, 1, 2, 17, 255], hidden_size // 2
    rates = [10000.0 ** (-i / (half - 1)) for i in range(half)]
    expected = [[f(pos * rate) for f in (math.sin, math.cos) for rate in rates] for pos in positions]
    result = np.array(sinusoidal_halves(np.array(positions), hidden_size))
    assert result.dtype == np.float32
    # At an angle of 255, neighboring float32 numbers are 2e-5 apart.
    np.testing.assert_allclose(result, expected, atol=2e-5)


# Rotations.


@pytest.mark.parametrize("size", [2, 6, 64])
def test_a_rotation_multiplies_channel_pairs_as_complex_numbers(size):
    positions = [0, 1, 5, 255]
    x = np.random.default_rng(1).normal(size=(2, 3, len(positions), size)).astype("float32")
    result = np.array(rotate(x, np.array(positions)))
    assert result.shape == x.shape
    for row, head, place, i in np.ndindex(2, 3, len(positions), size // 2):
        number = complex(x[row, head, place, i], x[row, head, place, i + size // 2])
        turned = number * cmath.exp(1j * positions[place] * 10000.0 ** (-2 * i / size))
        np.testing.assert_allclose(result[row, head, place, i], turned.real, atol=1e-4)
        np.testing.assert_allclose(result[row, head, place, i + size // 2], turned.imag, atol=1e-4)


# Learned positions.


def test_the_first_vectors_equal_those_of_single_positions(paper):
    layer = LearnedPositions(4, 6)
    layer.build(None)
    paper.randomize(layer)
    assert [tuple(variable.shape) for variable in layer.trainable_variables] == [(4, 6)]
    for length in (1, 3, 4):
        first = np.array(layer.first(length))
        assert first.shape == (length, 6)
        for position in range(length):
            np.testing.assert_array_equal(layer.at(position), first[position : position + 1])
            np.testing.assert_array_equal(first[position], layer.weight[position])


def test_a_length_beyond_the_learned_positions_is_an_error_that_names_max_length():
    layer = LearnedPositions(4, 6)
    layer.build(None)
    with pytest.raises(ValueError, match=r"5 positions.*max_length=4"):
        layer.first(5)


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


@pytest.mark.parametrize("source, target", [(5, 4), (4, 5)])
def test_a_model_refuses_a_longer_sequence_with_an_error_that_names_max_length(source, target, model):
    with pytest.raises(ValueError, match="max_length=4"):
        model(ids(source), ids(target))


@pytest.fixture(scope="module")
def graph(model):
    return tf.function(model, input_signature=[tf.TensorSpec((None, None), tf.int32)] * 2)


@pytest.mark.parametrize("source, target", [(5, 4), (4, 5), (9, 9)])
def test_a_graph_of_unknown_length_fails_on_a_longer_sequence(source, target, graph):
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(ids(source), ids(target))


@pytest.mark.parametrize("source, target", [(4, 4), (2, 3)])
def test_a_graph_of_unknown_length_accepts_every_length_up_to_max_length(source, target, graph, model):
    np.testing.assert_allclose(graph(ids(source), ids(target)), model(ids(source), ids(target)), atol=1e-5)
