"""Layer normalization against Keras' own layer, whose gradient is automatic."""

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.layers.norm import LayerNorm


def value_and_gradients(layer, x, upstream):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    gamma, beta = (weight.value for weight in (layer.gamma, layer.beta))
    return [y, *tape.gradient(y, [x, gamma, beta], upstream)]


def test_values_and_gradients_equal_those_of_keras():
    rng = np.random.default_rng(3)
    x, upstream = (tf.constant(rng.normal(2.0, 3.0, (2, 5, 8)), tf.float32) for _ in range(2))
    ours, theirs = LayerNorm(), keras.layers.LayerNormalization(epsilon=1e-6)
    for layer in (ours, theirs):
        layer.build(x.shape)
        for seed, weight in enumerate((layer.gamma, layer.beta)):
            weight.assign(np.random.default_rng(seed).normal(1.0, 0.5, 8))
    for found, expected in zip(value_and_gradients(ours, x, upstream), value_and_gradients(theirs, x, upstream)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
