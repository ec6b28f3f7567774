"""Encoder and decoder layers against the paper's equations."""

import numpy as np
import pytest
import tensorflow as tf
from support.layers import built, random
from support.seeds import seeds_of

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.layers.self_attention import SelfAttention
from t2t_lite.layers.transformer import DecoderLayer, EncoderLayer, Residual, Stepping

BATCH, SOURCE, TARGET, HIDDEN, FILTER, HEADS = 2, 5, 4, 8, 12, 2
# The second source sentence has two positions of padding.
SOURCE_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)[:, None, None, :]


def make_encoder_layer(**how):
    residuals = [Residual(0.3, **how, name=f"residual_{i}") for i in range(2)]
    return EncoderLayer(SelfAttention(HIDDEN, HEADS, causal=False), FeedForward(HIDDEN, FILTER), residuals)


def make_decoder_layer(**how):
    residuals = [Residual(0.3, **how, name=f"residual_{i}") for i in range(3)]
    cross_attention = MultiHeadAttention(HIDDEN, HEADS)
    return DecoderLayer(
        SelfAttention(HIDDEN, HEADS, causal=True), cross_attention, FeedForward(HIDDEN, FILTER), residuals
    )


@pytest.fixture
def encoder_layer(paper):
    return built(make_encoder_layer(), paper, HIDDEN)


@pytest.fixture
def decoder_layer(paper):
    return built(make_decoder_layer(), paper, HIDDEN)


def test_an_encoder_layer_is_two_sub_layers_each_normalized_after_the_sum(encoder_layer, paper):
    x = random(BATCH, SOURCE, HIDDEN)
    result = np.array(encoder_layer(x, SOURCE_MASK))
    for row in range(BATCH):
        expected = paper.encoder_layer(encoder_layer, x[row].astype("float64"), SOURCE_MASK[row, 0])
        np.testing.assert_allclose(result[row], expected, atol=2e-5)


def test_a_decoder_layer_is_three_sub_layers_each_normalized_after_the_sum(decoder_layer, paper):
    x, encoded = random(BATCH, TARGET, HIDDEN), random(BATCH, SOURCE, HIDDEN, seed=1)
    result = decoder_layer(x, decoder_layer.cross_keys_values(encoded), SOURCE_MASK).x
    for row in range(BATCH):
        given = x[row].astype("float64"), np.tri(TARGET, dtype=bool), encoded[row].astype("float64")
        expected = paper.decoder_layer(decoder_layer, *given, SOURCE_MASK[row, 0])
        np.testing.assert_allclose(result[row], expected, atol=2e-5)


def test_dropout_acts_on_the_sub_layer_and_not_on_the_residual(paper):
    residual = built(Residual(0.5), paper, HIDDEN)
    x, nothing = random(2, 3, HIDDEN), np.zeros((2, 3, HIDDEN), "float32")
    seeds = seeds_of()
    np.testing.assert_array_equal(residual(x, nothing, seeds=seeds), residual(x, nothing))
    assert np.abs(np.array(residual(nothing, x, seeds=seeds)) - np.array(residual(nothing, x))).max() > 0.1


@pytest.mark.parametrize("beam", [1, 3])
def test_stepping_gives_each_hypothesis_the_result_of_one_pass(decoder_layer, beam, descending_beams):
    vectors, encoded = random(10, HIDDEN), random(BATCH, SOURCE, HIDDEN, seed=1)
    memory = decoder_layer.cross_keys_values(encoded)
    keys_values_of_each = decoder_layer.cross_keys_values(encoded.repeat(beam, axis=0))
    cache = decoder_layer.self_attention.start_cache(BATCH, beam, TARGET + 2)  # a cache may be larger than needed
    for position, ancestry, histories in descending_beams(BATCH, beam, TARGET, room=2):
        x, stepping = vectors[histories[:, :, -1]], Stepping(tf.constant(position), cache, ancestry)
        y, cache, attention = decoder_layer(x, memory, SOURCE_MASK, stepping=stepping)
        sequences = vectors[histories].reshape(BATCH * beam, position + 1, HIDDEN)
        whole = decoder_layer(sequences, keys_values_of_each, SOURCE_MASK.repeat(beam, axis=0))
        assert whole.cache is None
        np.testing.assert_allclose(y, whole.x[:, -1].numpy().reshape(BATCH, beam, HIDDEN), atol=1e-5)
        assert attention.shape == (BATCH, HEADS, beam, SOURCE)
        np.testing.assert_allclose(attention.numpy().sum(-1), 1.0, atol=1e-6)


def test_pre_norm_leaves_the_residual_sum_unchanged(paper):
    residual = built(Residual(0.0, norm_position="pre"), paper, HIDDEN)
    x, y = random(1, 3, HIDDEN), random(1, 3, HIDDEN, seed=1)
    np.testing.assert_allclose(residual(x, y), x + y, atol=1e-6)
    np.testing.assert_allclose(
        np.array(residual.before(x))[0], paper.layer_norm(residual, x[0].astype("float64")), atol=2e-5
    )


def test_with_pre_norm_every_sub_layer_gets_a_normalized_input(paper):
    layer = built(make_encoder_layer(norm_position="pre"), paper, HIDDEN)
    x = random(1, SOURCE, HIDDEN)[0].astype("float64")
    everything = np.ones((SOURCE, SOURCE), bool)
    given = paper.layer_norm(layer.self_attention_residual, x)
    expected = x + paper.multi_head(layer.self_attention, given, given, everything)
    expected += paper.feed_forward(layer.feed_forward, paper.layer_norm(layer.feed_forward_residual, expected))
    result = np.array(layer(x[None].astype("float32"), np.ones((1, 1, 1, SOURCE), bool)))
    np.testing.assert_allclose(result[0], expected, atol=2e-5)


def test_rms_norm_divides_by_the_root_of_the_mean_square_and_has_no_offset(paper):
    residual = built(Residual(0.0, norm_type="rms"), paper, HIDDEN)
    x = random(1, 3, HIDDEN) * 1e-3  # mean square 1e-6, as large as epsilon
    (scale,) = residual.variables
    expected = 2.0 * x / np.sqrt((4.0 * x**2).mean(axis=-1, keepdims=True) + 1e-6) * np.array(scale)
    np.testing.assert_allclose(np.array(residual(x, x)), expected, atol=2e-5)
