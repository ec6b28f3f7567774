"""Both cross-entropies against the dense target distribution of section 5.4, in NumPy and float64."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.cross_entropy import cross_entropy, linear_cross_entropy

VOCAB = 7
TARGETS = np.array([3, 6, 1, 0, 0, 1, 0, 0, 0, 0, 2, 2, 5, 4, 1], "int32")
HIDDEN = 16


@pytest.fixture
def logits():
    return np.random.default_rng(1).normal(0.0, 3.0, (*TARGETS.shape, VOCAB)).astype("float32")


def in_numpy(logits, targets, label_smoothing):
    """Returns (sum of cross-entropies over the real positions, its gradient), float64."""
    vocab_size = logits.shape[-1]
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    distribution = (1 - label_smoothing) * np.eye(vocab_size)[targets] + label_smoothing / vocab_size
    real = (targets != 0)[..., None]
    return -(distribution * log_probs * real).sum(), (np.exp(log_probs) - distribution) * real


def value_and_gradient(logits, targets, label_smoothing):
    logits = tf.convert_to_tensor(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sums = cross_entropy(logits, tf.constant(targets), label_smoothing)
    return sums, tape.gradient(sums.smoothed, logits)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.5])
def test_value_and_gradient_equal_those_of_the_dense_smoothed_distribution(logits, label_smoothing):
    sums, gradient = value_and_gradient(logits, TARGETS, label_smoothing)
    expected, expected_gradient = in_numpy(logits, TARGETS, label_smoothing)
    np.testing.assert_allclose(sums.smoothed, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-6)


def test_the_gradient_is_scaled_by_the_upstream_gradient(logits):
    given = tf.convert_to_tensor(logits)
    with tf.GradientTape() as tape:
        tape.watch(given)
        loss = cross_entropy(given, tf.constant(TARGETS), 0.1).smoothed / 4.0
    np.testing.assert_allclose(tape.gradient(loss, given), in_numpy(logits, TARGETS, 0.1)[1] / 4.0, atol=1e-6)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_padding_gives_no_loss_and_no_gradient(logits, label_smoothing):
    sums, gradient = value_and_gradient(logits, TARGETS, label_smoothing)
    other = logits.copy()
    other[TARGETS == 0] = 50.0 * np.random.default_rng(2).normal(size=VOCAB)
    other_sums, _ = value_and_gradient(other, TARGETS, label_smoothing)
    assert (gradient.numpy()[TARGETS == 0] == 0.0).all()
    assert (np.abs(gradient.numpy()[TARGETS != 0]).max(axis=-1) > 0.0).all()
    np.testing.assert_array_equal(sums, other_sums)


def test_the_plain_loss_ignores_smoothing(logits):
    expected, _ = in_numpy(logits, TARGETS, 0.0)
    for label_smoothing in (0.0, 0.1, 0.5):
        sums, _ = value_and_gradient(logits, TARGETS, label_smoothing)
        np.testing.assert_allclose(sums.plain, expected, rtol=1e-5)
    assert abs(float(sums.smoothed) - expected) > 1.0


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("target", [1, 2])
def test_the_loss_is_finite_and_right_for_logits_of_ten_thousand(target, label_smoothing):
    logits = np.full((1, VOCAB), -1e4, "float32")
    logits[0, 1] = 1e4
    targets = np.array([target], "int32")
    sums, gradient = value_and_gradient(logits, targets, label_smoothing)
    expected, expected_gradient = in_numpy(logits, targets, label_smoothing)
    # float32 numbers near 20,000 are 0.002 apart.
    np.testing.assert_allclose(sums.smoothed, expected, rtol=1e-6, atol=0.01)
    np.testing.assert_allclose(sums.plain, 0.0 if target == 1 else 20_000.0, atol=0.01)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-6)


def test_bfloat16_logits_give_a_bfloat16_gradient_and_float32_sums(logits):
    low = tf.cast(logits, tf.bfloat16)
    sums, gradient = value_and_gradient(low, TARGETS, 0.1)
    expected, expected_gradient = in_numpy(tf.cast(low, tf.float32).numpy(), TARGETS, 0.1)
    assert gradient.dtype == tf.bfloat16
    assert {part.dtype for part in sums} == {tf.float32}
    np.testing.assert_allclose(sums.smoothed, expected, rtol=1e-5)
    np.testing.assert_allclose(tf.cast(gradient, tf.float32), expected_gradient, atol=2.0**-8)


def test_the_targets_with_the_largest_logit_are_counted(logits):
    right = int(((logits.argmax(-1) == TARGETS) & (TARGETS != 0)).sum())
    assert 0 < right < 9
    assert cross_entropy(logits, TARGETS, 0.1).correct == right
    by_factors = linear_cross_entropy(logits, np.eye(VOCAB, dtype="float32"), TARGETS, 0.1, trains=False)
    assert by_factors.correct == right


# Of the two factors. 1,500 positions are several chunks, which are not full.


def factors(positions, vocab_size, dtype="float32"):
    """Returns x, weight and targets, a tenth of them padding."""
    generator = np.random.default_rng(positions)
    x = tf.cast(generator.normal(0.0, 2.0, (positions, HIDDEN)), dtype)
    weight = generator.normal(0.2, 0.5, (vocab_size, HIDDEN)).astype("float32")
    targets = generator.integers(1, vocab_size, positions) * (generator.random(positions) > 0.1)
    return x, weight, targets.astype("int32")


def gradients_in_numpy(x, weight, targets, label_smoothing, logits=None):
    """Returns (smoothed, plain, gradient of x, gradient of the weight) in float64; of given logits, if any."""
    x, weight = tf.cast(x, "float64").numpy(), tf.cast(tf.cast(weight, x.dtype), "float64").numpy()
    logits = x @ weight.T if logits is None else tf.cast(logits, "float64").numpy()
    smoothed, dlogits = in_numpy(logits, targets, label_smoothing)
    return smoothed, in_numpy(logits, targets, 0.0)[0], dlogits @ weight, dlogits.T @ x


def loss_and_gradients(x, weight, targets, label_smoothing=0.1, upstream=1.0):
    """Returns (sums, gradients of x and weight) of the loss times `upstream`."""
    x, weight = tf.convert_to_tensor(x), tf.convert_to_tensor(weight)
    with tf.GradientTape() as tape:
        tape.watch([x, weight])
        sums = linear_cross_entropy(x, weight, targets, label_smoothing)
        loss = sums.smoothed * upstream
    return sums, tape.gradient(loss, [x, weight])


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("positions", [1, 15, 1500, 4100])
def test_of_factors_value_and_gradients_equal_those_of_the_whole_logits(positions, label_smoothing):
    x, weight, targets = factors(positions, 50)
    sums, (of_x, of_weight) = loss_and_gradients(x, weight, targets, label_smoothing)
    smoothed, plain, expected_of_x, expected_of_weight = gradients_in_numpy(x, weight, targets, label_smoothing)
    np.testing.assert_allclose(sums.smoothed, smoothed, rtol=1e-5)
    np.testing.assert_allclose(sums.plain, plain, rtol=1e-5)
    np.testing.assert_allclose(of_x, expected_of_x, atol=2e-6)
    np.testing.assert_allclose(of_weight, expected_of_weight, atol=2e-4)
    assert not of_x.numpy()[targets == 0].any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_of_16_bit_factors_sums_are_float32_and_gradients_keep_their_types(dtype):
    x, weight, targets = factors(1500, 50, dtype)
    sums, (of_x, of_weight) = loss_and_gradients(x, weight, targets)
    # Without oneDNN, TensorFlow also rounds partial sums of a product to 16 bits.
    logits = tf.matmul(x, tf.cast(weight, dtype), transpose_b=True)
    smoothed, _, expected_of_x, expected_of_weight = gradients_in_numpy(x, weight, targets, 0.1, logits)
    assert {part.dtype for part in sums[:2]} == {tf.float32}
    assert (of_x.dtype, of_weight.dtype) == (tf.as_dtype(dtype), tf.float32)
    # Logits of up to 20 and gradients of up to 1 are rounded to 8 bits.
    np.testing.assert_allclose(sums.smoothed, smoothed, rtol=2e-3)
    np.testing.assert_allclose(tf.cast(of_x, "float32"), expected_of_x, atol=0.05)
    error = np.linalg.norm(of_weight - expected_of_weight) / np.linalg.norm(expected_of_weight)
    assert error < 0.01


_ON_JAX = """
import sys
import jax
import numpy as np
from t2t_lite.layers.cross_entropy import linear_cross_entropy

given = np.load(sys.argv[1])
loss = lambda x, weight, targets: linear_cross_entropy(x, weight, targets, 0.1).smoothed
value, gradients = jax.jit(jax.value_and_grad(loss, (0, 1)))(given["x"], given["weight"], given["targets"])
np.savez(sys.argv[2], value=value, x=gradients[0], weight=gradients[1])
"""


@pytest.mark.heavy
def test_of_factors_it_is_the_same_on_jax(tmp_path):
    pytest.importorskip("jax")
    x, weight, targets = factors(1500, 50)
    np.savez(tmp_path / "in.npz", x=x, weight=weight, targets=targets)
    command = [sys.executable, "-c", _ON_JAX, tmp_path / "in.npz", tmp_path / "out.npz"]
    subprocess.run(
        command, env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}, check=True, capture_output=True
    )
    result = np.load(tmp_path / "out.npz")
    smoothed, _, of_x, of_weight = gradients_in_numpy(x, weight, targets, 0.1)
    np.testing.assert_allclose(result["value"], smoothed, rtol=1e-5)
    np.testing.assert_allclose(result["x"], of_x, atol=2e-6)
    np.testing.assert_allclose(result["weight"], of_weight, atol=2e-4)
