"""Label-smoothed cross-entropy against the dense target distribution of section 5.4, in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.training.step.loss import smoothed_cross_entropy

VOCAB = 7
TARGETS = np.array([[3, 6, 1, 0, 0], [1, 0, 0, 0, 0], [2, 2, 5, 4, 1]], "int32")


@pytest.fixture
def logits():
    return np.random.default_rng(1).normal(0.0, 3.0, (*TARGETS.shape, VOCAB)).astype("float32")


def in_numpy(logits, targets, label_smoothing):
    """Returns (sum of cross-entropies over the real positions, its gradient), float64."""
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    distribution = (1 - label_smoothing) * np.eye(VOCAB)[targets] + label_smoothing / VOCAB
    real = (targets != 0)[..., None]
    return -(distribution * log_probs * real).sum(), (np.exp(log_probs) - distribution) * real


def value_and_gradient(logits, targets, label_smoothing):
    logits = tf.convert_to_tensor(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sums = smoothed_cross_entropy(logits, tf.constant(targets), label_smoothing)
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
        loss = smoothed_cross_entropy(given, tf.constant(TARGETS), 0.1).smoothed / 4.0
    np.testing.assert_allclose(tape.gradient(loss, given), in_numpy(logits, TARGETS, 0.1)[1] / 4.0, atol=1e-6)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_padding_gives_no_loss_and_no_gradient(logits, label_smoothing):
    sums, gradient = value_and_gradient(logits, TARGETS, label_smoothing)
    other = logits.copy()
    other[TARGETS == 0] = 50.0 * np.random.default_rng(2).normal(size=VOCAB)
    other_sums, _ = value_and_gradient(other, TARGETS, label_smoothing)
    assert (gradient.numpy()[TARGETS == 0] == 0.0).all()
    assert (np.abs(gradient.numpy()[TARGETS != 0]).max(axis=-1) > 0.0).all()
    assert sums.tokens == 9.0
    np.testing.assert_array_equal(sums, other_sums)


def test_a_batch_of_only_padding_has_zero_loss(logits):
    sums, gradient = value_and_gradient(logits, np.zeros_like(TARGETS), 0.1)
    assert [float(part) for part in sums] == [0.0, 0.0, 0.0]
    assert not gradient.numpy().any()


def test_the_plain_loss_ignores_smoothing(logits):
    expected, _ = in_numpy(logits, TARGETS, 0.0)
    for label_smoothing in (0.0, 0.1, 0.5):
        sums, _ = value_and_gradient(logits, TARGETS, label_smoothing)
        np.testing.assert_allclose(sums.plain, expected, rtol=1e-5)
    assert abs(float(sums.smoothed) - expected) > 1.0


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("target", [1, 2])
def test_the_loss_is_finite_and_right_for_logits_of_ten_thousand(target, label_smoothing):
    logits = np.full((1, 1, VOCAB), -1e4, "float32")
    logits[0, 0, 1] = 1e4
    targets = np.array([[target]], "int32")
    sums, gradient = value_and_gradient(logits, targets, label_smoothing)
    expected, expected_gradient = in_numpy(logits, targets, label_smoothing)
    # float32 numbers near 20,000 are 0.002 apart.
    np.testing.assert_allclose(sums.smoothed, expected, rtol=1e-6, atol=0.01)
    np.testing.assert_allclose(sums.plain, 0.0 if target == 1 else 20_000.0, atol=0.01)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-6)


def test_equal_logits_give_the_log_of_the_vocabulary_size_for_any_smoothing():
    for offset in (-1e4, 0.0, 1e4):
        for label_smoothing in (0.0, 0.1):
            sums, _ = value_and_gradient(np.full((1, 2, VOCAB), offset, "float32"), TARGETS[:1, :2], label_smoothing)
            np.testing.assert_allclose(sums.smoothed, 2 * np.log(VOCAB), atol=0.003)


def test_bfloat16_logits_give_a_bfloat16_gradient_and_float32_sums(logits):
    low = tf.cast(logits, tf.bfloat16)
    sums, gradient = value_and_gradient(low, TARGETS, 0.1)
    expected, expected_gradient = in_numpy(tf.cast(low, tf.float32).numpy(), TARGETS, 0.1)
    assert gradient.dtype == tf.bfloat16
    assert {part.dtype for part in sums} == {tf.float32}
    np.testing.assert_allclose(sums.smoothed, expected, rtol=1e-5)
    np.testing.assert_allclose(tf.cast(gradient, tf.float32), expected_gradient, atol=2.0**-8)


def test_batch_and_length_may_be_unknown_in_a_graph(logits):
    signature = [tf.TensorSpec([None, None, VOCAB], tf.float32), tf.TensorSpec([None, None], tf.int32)]
    traced = tf.function(lambda logits, targets: smoothed_cross_entropy(logits, targets, 0.1), signature)
    np.testing.assert_allclose(traced(logits, TARGETS).smoothed, in_numpy(logits, TARGETS, 0.1)[0], rtol=1e-5)
