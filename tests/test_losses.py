"""The loss for Keras' `compile` against the trainer's loss and against the definition in NumPy."""

import doctest

import numpy as np
import pytest
from keras import ops

from t2t_lite import losses
from t2t_lite.errors import UserError
from t2t_lite.layers.cross_entropy import cross_entropy
from t2t_lite.losses import SmoothedCrossEntropy

VOCAB = 7
TARGETS = np.array([[3, 6, 1, 0, 0], [2, 2, 5, 4, 1]], "int32")
LOGITS = np.random.default_rng(1).normal(scale=3.0, size=(*TARGETS.shape, VOCAB)).astype("float32")
TOKENS = np.count_nonzero(TARGETS)


def by_definition(eps):
    """The cross-entropy of each position against (1 - eps) on the target and eps over the vocabulary, in float64."""
    logits = LOGITS.astype("float64")
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = (1 - eps) * np.eye(VOCAB)[TARGETS] + eps / VOCAB
    return -(wanted * log_probabilities).sum(-1)


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_the_loss_is_the_mean_over_real_tokens(eps):
    expected = by_definition(eps)[TARGETS != 0].sum() / TOKENS
    assert float(SmoothedCrossEntropy(eps)(TARGETS, LOGITS)) == pytest.approx(expected, rel=1e-5)
    sums = cross_entropy(LOGITS.reshape(-1, VOCAB), TARGETS.reshape(-1), eps)
    assert float(sums.smoothed / TOKENS) == pytest.approx(expected, rel=1e-5)


def test_the_other_reductions_are_the_sum_and_one_loss_per_position():
    expected = by_definition(0.1) * (TARGETS != 0)
    assert float(SmoothedCrossEntropy(reduction="sum")(TARGETS, LOGITS)) == pytest.approx(expected.sum(), rel=1e-5)
    for none in ("none", None):
        np.testing.assert_allclose(SmoothedCrossEntropy(reduction=none)(TARGETS, LOGITS), expected, rtol=1e-5)


@pytest.mark.parametrize("weights", [[0.0, 2.0], np.arange(10.0).reshape(2, 5)])
def test_sample_weights_make_a_weighted_mean(weights):
    of_tokens = np.broadcast_to(np.reshape(weights, (2, -1)), TARGETS.shape) * (TARGETS != 0)
    expected = (by_definition(0.1) * of_tokens).sum() / of_tokens.sum()
    assert float(SmoothedCrossEntropy()(TARGETS, LOGITS, np.array(weights))) == pytest.approx(expected, rel=1e-5)


def test_16_bit_logits_are_computed_in_float32():
    low = ops.cast(LOGITS, "bfloat16")
    loss = SmoothedCrossEntropy()(TARGETS, low)
    assert loss.dtype == "float32"
    assert float(loss) == pytest.approx(float(SmoothedCrossEntropy()(TARGETS, ops.cast(low, "float32"))), rel=1e-6)


def test_reductions_that_count_padding_and_label_smoothing_out_of_range_are_refused():
    for reduction in ("mean", "sum_over_batch_size", "average"):
        with pytest.raises(UserError, match=f"reduction='{reduction}' .* one of mean_with_sample_weight, sum, none"):
            SmoothedCrossEntropy(reduction=reduction)
    for eps in (-0.1, 1.0):
        with pytest.raises(UserError, match=f"label_smoothing={eps} is out of range"):
            SmoothedCrossEntropy(eps)


def test_the_example_runs():
    results = doctest.testmod(losses)
    assert results.attempted and not results.failed
