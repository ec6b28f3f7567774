"""Both cross-entropies against the dense target distribution of section 5.4, and R-Drop, in NumPy and float64.

On JAX, tests/dev/test_jax_step.py covers them.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.cross_entropy import cross_entropy, linear_cross_entropy, linear_rdrop

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


def value_and_gradient(logits, targets, label_smoothing, upstream=1.0):
    logits = tf.convert_to_tensor(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sums = cross_entropy(logits, tf.constant(targets), label_smoothing)
        loss = sums.smoothed * upstream
    return sums, tape.gradient(loss, logits)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.5])
def test_value_and_gradient_equal_those_of_the_dense_smoothed_distribution(logits, label_smoothing):
    sums, gradient = value_and_gradient(logits, TARGETS, label_smoothing, upstream=0.25)
    expected, expected_gradient = in_numpy(logits, TARGETS, label_smoothing)
    np.testing.assert_allclose(sums.smoothed, expected, rtol=1e-5)
    np.testing.assert_allclose(sums.plain, in_numpy(logits, TARGETS, 0.0)[0], rtol=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient / 4.0, atol=1e-6)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_padding_gives_no_loss_and_no_gradient(logits, label_smoothing):
    sums, gradient = value_and_gradient(logits, TARGETS, label_smoothing)
    other = logits.copy()
    other[TARGETS == 0] = 50.0 * np.random.default_rng(2).normal(size=VOCAB)
    other_sums, _ = value_and_gradient(other, TARGETS, label_smoothing)
    assert (gradient.numpy()[TARGETS == 0] == 0.0).all()
    assert (np.abs(gradient.numpy()[TARGETS != 0]).max(axis=-1) > 0.0).all()
    np.testing.assert_array_equal(sums, other_sums)


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


def loss_and_gradients(x, weight, targets, label_smoothing=0.1):
    """Returns (sums, gradients of x and weight)."""
    x, weight = tf.convert_to_tensor(x), tf.convert_to_tensor(weight)
    with tf.GradientTape() as tape:
        tape.watch([x, weight])
        sums = linear_cross_entropy(x, weight, targets, label_smoothing)
    return sums, tape.gradient(sums.smoothed, [x, weight])


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


# R-Drop.


def rdrop_in_numpy(x, weight, label_smoothing, alpha):
    """Returns half of equation 4 of Wu et al. 2021, -log P - log Q + alpha / 2 (KL(P, Q) + KL(Q, P)), of all tokens."""
    logits = x @ weight.T
    likelihoods = [in_numpy(each, TARGETS, label_smoothing)[0] for each in logits]
    log_p, log_q = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    divergence = ((np.exp(log_p) - np.exp(log_q)) * (log_p - log_q)).sum(axis=-1)
    return (sum(likelihoods) + alpha / 2 * (divergence * (TARGETS != 0)).sum()) / 2


def numeric_gradient(function, array, step=1e-6):
    gradient = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        moved = [array.copy(), array.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        gradient[place] = (function(moved[0]) - function(moved[1])) / (2 * step)
    return gradient


@pytest.mark.parametrize("max_chunk", [1, 4, 100])
@pytest.mark.parametrize(("label_smoothing", "alpha"), [(0.0, 5.0), (0.1, 1.0)])
def test_rdrop_and_its_gradients_are_those_of_the_equation(label_smoothing, alpha, max_chunk):
    generator, how = np.random.default_rng(1), (label_smoothing, alpha)
    given = generator.normal(size=(2, len(TARGETS), 6)), generator.normal(size=(VOCAB, 6))
    x, weight = (tf.Variable(part, dtype=tf.float32) for part in given)
    with tf.GradientTape() as tape:
        sums = linear_rdrop(tf.identity(x), weight, TARGETS, *how, max_chunk)
        scaled = 3.0 * sums.smoothed
    of_x, of_weight = tape.gradient(scaled, [x, weight])
    np.testing.assert_allclose(sums.smoothed, rdrop_in_numpy(*given, *how), rtol=1e-5)
    np.testing.assert_allclose(sums.plain, rdrop_in_numpy(*given, 0.0, 0.0), rtol=1e-5)
    expected = numeric_gradient(lambda part: 3 * rdrop_in_numpy(part, given[1], *how), given[0])
    np.testing.assert_allclose(of_x, expected, atol=2e-5)
    expected = numeric_gradient(lambda part: 3 * rdrop_in_numpy(given[0], part, *how), given[1])
    np.testing.assert_allclose(of_weight, expected, atol=2e-4)
