"""Embeddings with both uses of their matrix, positional encodings against their formulas, learned positions."""

import math

import numpy as np
import pytest
import tensorflow as tf
from support.paper import PaperInNumpy

from t2t_lite.config import HParams
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.positions import sinusoidal_halves, sinusoids
from t2t_lite.models.transformer import Transformer


@pytest.mark.parametrize("hidden_size", [2, 6, 512])
def test_each_element_follows_the_formula(hidden_size):
    positions = [0, 1, 2, 17, 255]
    expected = [
        [PaperInNumpy.position(pos, channel, hidden_size) for channel in range(hidden_size)] for pos in positions
    ]
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
def model():
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
    PaperInNumpy.randomize(model)
    return model


def ids(length):
    return np.random.default_rng(1).integers(2, 11, (2, length)).astype("int32")


def test_a_model_and_its_graph_accept_every_length_up_to_max_length_only(model):
    graph = tf.function(model, input_signature=[tf.TensorSpec((None, None), tf.int32)] * 2)
    for source, target in ((4, 4), (2, 3)):
        np.testing.assert_allclose(graph(ids(source), ids(target)), model(ids(source), ids(target)), atol=1e-5)
    for source, target in ((5, 4), (4, 5), (9, 9)):
        with pytest.raises(ValueError, match=r"\d positions.*max_length=4"):
            model(ids(source), ids(target))
        with pytest.raises(tf.errors.InvalidArgumentError):
            graph(ids(source), ids(target))


# Embeddings.


def test_gradients_of_both_uses_of_an_embedding_are_summed():
    vocab_size, hidden_size, rng = 7, 9, np.random.default_rng(2)
    layer = Embedding(vocab_size, hidden_size)
    layer.build(None)
    ids = np.array([[0, 3, 3], [6, 1, 0]])
    x, on_vectors = (rng.normal(size=(2, 3, hidden_size)).astype("float32") for _ in range(2))
    on_logits = rng.normal(size=(2, 3, vocab_size)).astype("float32")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(ids) * on_vectors) + tf.reduce_sum(layer.logits(x) * on_logits)
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.weight.value))

    expected = np.einsum("btv,btd->vd", on_logits, x)
    for row, position in np.ndindex(ids.shape):
        expected[ids[row, position]] += hidden_size**0.5 * on_vectors[row, position]
    np.testing.assert_allclose(gradient, expected, atol=1e-4)


def test_initial_vectors_have_unit_variance():
    layer = Embedding(500, 64)
    layer.build(None)
    vectors = np.array(layer(np.arange(500)[None, :]))
    # 32,000 draws: the sample variance has a standard deviation of sqrt(2 / 32,000) = 0.008.
    assert abs(vectors.var() - 1.0) < 0.04
    assert abs(vectors.mean()) < 0.03


def test_the_vector_of_padding_may_be_zero_and_still_has_a_logit():
    embedding = Embedding(vocab_size=5, hidden_size=4, zero_padding=True)
    vectors = np.array(embedding(tf.constant([[3, 0, 1]])))
    weight = np.array(embedding.weight)
    np.testing.assert_allclose(vectors, [[2 * weight[3], np.zeros(4), 2 * weight[1]]], rtol=1e-6)
    np.testing.assert_allclose(embedding.logits(vectors), vectors @ weight.T, rtol=1e-5)
