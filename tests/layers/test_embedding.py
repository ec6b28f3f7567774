"""One matrix embeds and produces logits."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.embedding import Embedding

VOCAB, HIDDEN = 7, 9


@pytest.fixture
def layer():
    layer = Embedding(VOCAB, HIDDEN)
    layer.build(None)
    return layer


def test_gradients_of_both_uses_are_summed(layer):
    rng = np.random.default_rng(2)
    ids = np.array([[0, 3, 3], [6, 1, 0]])
    x, on_vectors = (rng.normal(size=(2, 3, HIDDEN)).astype("float32") for _ in range(2))
    on_logits = rng.normal(size=(2, 3, VOCAB)).astype("float32")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(ids) * on_vectors) + tf.reduce_sum(layer.logits(x) * on_logits)
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.weight.value))

    expected = np.einsum("btv,btd->vd", on_logits, x)
    for row, position in np.ndindex(ids.shape):
        expected[ids[row, position]] += HIDDEN**0.5 * on_vectors[row, position]
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
