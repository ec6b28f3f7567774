"""Encoder and decoder layers against the paper's equations."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.dropout import CallSeeds
from t2t_lite.layers.masks import causal_mask
from t2t_lite.layers.transformer import DecoderLayer, EncoderLayer, Residual

BATCH, SOURCE, TARGET, HIDDEN, FILTER, HEADS = 2, 5, 4, 8, 12, 2
# The second source sentence has two positions of padding.
MEMORY_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)[:, None, None, :]


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def built(layer, paper):
    layer.build((None, None, HIDDEN))
    paper.randomize(layer, seed=7)
    return layer


@pytest.fixture
def encoder_layer(paper):
    return built(EncoderLayer(HIDDEN, FILTER, HEADS, 0.3), paper)


@pytest.fixture
def decoder_layer(paper):
    return built(DecoderLayer(HIDDEN, FILTER, HEADS, 0.3), paper)


def test_an_encoder_layer_is_two_sub_layers_each_normalized_after_the_sum(encoder_layer, paper):
    x = random(BATCH, SOURCE, HIDDEN)
    result = np.array(encoder_layer(x, MEMORY_MASK))
    for row in range(BATCH):
        expected = paper.encoder_layer(encoder_layer, x[row].astype("float64"), MEMORY_MASK[row, 0])
        np.testing.assert_allclose(result[row], expected, atol=2e-5)


def test_a_decoder_layer_is_three_sub_layers_each_normalized_after_the_sum(decoder_layer, paper):
    x, encoded = random(BATCH, TARGET, HIDDEN), random(BATCH, SOURCE, HIDDEN, seed=1)
    result, _ = decoder_layer(x, causal_mask(TARGET), decoder_layer.memory_of(encoded), MEMORY_MASK)
    for row in range(BATCH):
        given = x[row].astype("float64"), np.tri(TARGET, dtype=bool), encoded[row].astype("float64")
        expected = paper.decoder_layer(decoder_layer, *given, MEMORY_MASK[row, 0])
        np.testing.assert_allclose(result[row], expected, atol=2e-5)


def test_the_norm_divides_by_the_deviation_with_epsilon_1e_minus_6(paper):
    residual = built(Residual(0.0), paper)
    x = random(1, 3, HIDDEN) * 1e-3  # variance 1e-6, as large as epsilon
    expected = paper.layer_norm(residual, 2.0 * x[0].astype("float64"))
    np.testing.assert_allclose(np.array(residual(x, x))[0], expected, atol=2e-5)


def test_dropout_is_on_the_sub_layer_and_not_on_what_bypasses_it(paper):
    residual = built(Residual(0.5), paper)
    x, nothing = random(2, 3, HIDDEN), np.zeros((2, 3, HIDDEN), "float32")
    seeds = CallSeeds(tf.constant([1, 2], tf.uint32))
    np.testing.assert_array_equal(residual(x, nothing, seeds=seeds), residual(x, nothing))
    assert np.abs(np.array(residual(nothing, x, seeds=seeds)) - np.array(residual(nothing, x))).max() > 0.1


@pytest.mark.parametrize("beam", [1, 3])
def test_beams_share_the_memory_of_their_sentence_as_if_it_were_repeated(decoder_layer, beam):
    encoded = random(BATCH, SOURCE, HIDDEN, seed=1)
    x = random(BATCH * beam, 1, HIDDEN)  # the beams of a sentence are neighbours
    cache = tuple(random(BATCH * beam, HEADS, 2, HIDDEN // HEADS, seed=seed) for seed in (2, 3))
    mask = np.ones((1, 1, 1, 2), bool)
    shared, _ = decoder_layer(x, mask, decoder_layer.memory_of(encoded), MEMORY_MASK, cache=cache, position=1)
    memory = decoder_layer.memory_of(encoded.repeat(beam, axis=0))
    memory_mask = MEMORY_MASK.repeat(beam, axis=0)
    repeated, _ = decoder_layer(x, mask, memory, memory_mask, cache=cache, position=1)
    np.testing.assert_allclose(shared, repeated, atol=1e-6)


def test_stepping_fills_the_cache_position_by_position_and_gives_the_same_output(decoder_layer):
    x, encoded = random(BATCH, TARGET, HIDDEN), random(BATCH, SOURCE, HIDDEN, seed=1)
    memory = decoder_layer.memory_of(encoded)
    whole, (keys, values) = decoder_layer(x, causal_mask(TARGET), memory, MEMORY_MASK)
    longer = TARGET + 2  # a cache may have room left
    cache = tuple(np.zeros((BATCH, HEADS, longer, HIDDEN // HEADS), "float32") for _ in range(2))
    for position in range(TARGET):
        mask = (np.arange(longer) <= position)[None, None, None, :]
        given = x[:, position : position + 1], mask, memory, MEMORY_MASK
        y, cache = decoder_layer(*given, cache=cache, position=position)
        np.testing.assert_allclose(y[:, 0], whole[:, position], atol=1e-5)
    np.testing.assert_allclose(cache[0][:, :, :TARGET], keys, atol=1e-6)
    np.testing.assert_allclose(cache[1][:, :, :TARGET], values, atol=1e-6)
    assert not np.array(cache[0][:, :, TARGET:]).any()
