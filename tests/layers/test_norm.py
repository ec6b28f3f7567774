"""Residual connections and norms; whole layers are in tests/models/test_transformer.py."""

import keras
import numpy as np
import tensorflow as tf
from support.layers import built, random
from support.paper import PaperInNumpy
from support.seeds import seeds_of

from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.layers.norm import LayerNorm
from t2t_lite.layers.self_attention import SelfAttention
from t2t_lite.layers.transformer import EncoderLayer, Residual

HIDDEN, FILTER, HEADS = 8, 12, 2


def test_dropout_acts_on_the_sub_layer_and_not_on_the_residual():
    residual = built(Residual(0.5), HIDDEN)
    x, nothing = random(2, 3, HIDDEN), np.zeros((2, 3, HIDDEN), "float32")
    seeds = seeds_of()
    np.testing.assert_array_equal(residual(x, nothing, seeds=seeds), residual(x, nothing))
    assert np.abs(np.array(residual(nothing, x, seeds=seeds)) - np.array(residual(nothing, x))).max() > 0.1


def test_with_pre_norm_every_sub_layer_gets_a_normalized_input():
    residuals = [Residual(0.3, norm_position="pre", name=f"residual_{i}") for i in range(2)]
    parts = SelfAttention(HIDDEN, HEADS, causal=False), FeedForward(HIDDEN, FILTER)
    layer = built(EncoderLayer(*parts, residuals), HIDDEN)
    x = random(1, 5, HIDDEN)[0].astype("float64")
    everything = np.ones((5, 5), bool)
    given = PaperInNumpy.layer_norm(layer.self_attention_residual, x)
    expected = x + PaperInNumpy.multi_head(layer.self_attention, given, given, everything)
    expected += PaperInNumpy.feed_forward(
        layer.feed_forward, PaperInNumpy.layer_norm(layer.feed_forward_residual, expected)
    )
    result = np.array(layer(x[None].astype("float32"), np.ones((1, 1, 1, 5), bool)))
    np.testing.assert_allclose(result[0], expected, atol=2e-5)


def test_rms_norm_divides_by_the_root_of_the_mean_square_and_has_no_offset():
    residual = built(Residual(0.0, norm_type="rms"), HIDDEN)
    x = random(1, 3, HIDDEN) * 1e-3  # mean square 1e-6, as large as epsilon
    (scale,) = residual.variables
    expected = 2.0 * x / np.sqrt((4.0 * x**2).mean(axis=-1, keepdims=True) + 1e-6) * np.array(scale)
    np.testing.assert_allclose(np.array(residual(x, x)), expected, atol=2e-5)


def value_and_gradients(layer, x, upstream):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    gamma, beta = (weight.value for weight in (layer.gamma, layer.beta))
    return [y, *tape.gradient(y, [x, gamma, beta], upstream)]


def test_values_and_gradients_of_the_norm_equal_those_of_keras():
    rng = np.random.default_rng(3)
    x, upstream = (tf.constant(rng.normal(2.0, 3.0, (2, 5, 8)), tf.float32) for _ in range(2))
    ours, theirs = LayerNorm(), keras.layers.LayerNormalization(epsilon=1e-6)
    for layer in (ours, theirs):
        layer.build(x.shape)
        for seed, weight in enumerate((layer.gamma, layer.beta)):
            weight.assign(np.random.default_rng(seed).normal(1.0, 0.5, 8))
    for found, expected in zip(value_and_gradients(ours, x, upstream), value_and_gradients(theirs, x, upstream)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
