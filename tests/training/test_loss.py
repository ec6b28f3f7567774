"""The loss by factors of the logits and for Keras' `compile`, against its definition; Philox's numbers for dropout."""

import doctest

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_lite import losses, schedules
from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.layers.cross_entropy import cross_entropy
from t2t_lite.layers.embedding import Embedding
from t2t_lite.losses import SmoothedCrossEntropy
from t2t_lite.models.hard_alignment import HardAlignmentTransformer
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.loss import DropoutSeeds, evaluation_sums, training_loss

TINY = HParams(num_encoder_layers=1, num_decoder_layers=1, hidden_size=16, filter_size=24, num_heads=2)
VOCAB = 19
INPUTS = np.array([[5, 6, 7, 1], [8, 1, 0, 0]], "int32")
TARGETS = np.array([[9, 4, 9, 3, 1], [4, 1, 0, 0, 0]], "int32")


class OwnCall(Transformer):
    """Computes what its super class computes, in a method of its own."""

    def call(self, *args, **kwargs):
        return super().call(*args, **kwargs)


class OwnLogits(HardAlignmentTransformer):
    def _logits(self, x):
        return super()._logits(x)


class OwnProjection(Embedding):
    def logits(self, x):
        return super().logits(x)


def with_own_projection(hparams, vocab_size):
    model = Transformer(hparams, vocab_size)
    model.projection.__class__ = OwnProjection
    return model


def results_of(model):
    """Returns ((smoothed, plain, tokens) and the gradients of a training step; the sums of an evaluation)."""
    with tf.GradientTape() as tape:
        sums = training_loss(model, tf.constant(INPUTS), tf.constant(TARGETS), DropoutSeeds(3, 7, 0, 2))
    gradients = [tf.convert_to_tensor(part) for part in tape.gradient(sums.smoothed, model.trainable_variables)]
    return [*sums, *gradients], evaluation_sums(model, tf.constant(INPUTS), tf.constant(TARGETS))


@pytest.mark.parametrize(
    ("by_factors", "by_logits", "changes"),
    [
        (Transformer, OwnCall, {}),
        (Transformer, OwnCall, {"norm_position": "pre", "tied_embeddings": "none"}),
        (Transformer, OwnCall, {"tied_embeddings": "decoder", "label_smoothing": 0.0}),
        (Transformer, with_own_projection, {"tied_embeddings": "none"}),
        (HardAlignmentTransformer, OwnLogits, {"hard_alignment_token": 4}),
    ],
    ids=["tied", "pre-norm, untied", "decoder tied, not smoothed", "own projection", "hard alignment"],
)
def test_by_factors_and_by_logits_are_the_same(by_factors, by_logits, changes):
    models = [kind(TINY.replace(**changes), VOCAB) for kind in (by_factors, by_logits)]
    for model in models:
        model.build()
    models[1].set_weights(models[0].get_weights())
    assert models[0].factors_of_logits(INPUTS, TARGETS, None) is not None
    assert models[1].factors_of_logits(INPUTS, TARGETS, None) is None
    (trained, evaluated), (expected, expected_evaluated) = map(results_of, models)
    for part, expected_part in zip(trained, expected, strict=True):
        np.testing.assert_allclose(part, expected_part, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(evaluated, expected_evaluated, rtol=1e-5)


def test_rdrop_without_dropout_has_the_usual_loss_and_with_it_two_other_passes():
    keras.utils.set_random_seed(1)  # an untrained model can happen to have a lower loss with dropout
    plain, twice, dropped = (
        Transformer(TINY.replace(residual_dropout=rate, rdrop_alpha=alpha), VOCAB)
        for rate, alpha in ((0.0, 0.0), (0.0, 3.0), (0.3, 3.0))
    )
    for model in (plain, twice, dropped):
        model.build()
        model.set_weights(plain.get_weights())
    (expected, evaluated), (found, same), (other, _) = map(results_of, (plain, twice, dropped))
    for part, expected_part in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, expected_part, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(same, evaluated, rtol=1e-6)  # evaluation makes one pass
    assert other[0] > expected[0] * 1.001


def test_rdrop_needs_the_factors_of_the_logits():
    model = OwnCall(TINY.replace(rdrop_alpha=1.0), VOCAB)
    with pytest.raises(UserError, match=r"rdrop_alpha=1.0: OwnCall does not return the factors of its logits"):
        results_of(model)


SIZE = 7
IDS = np.array([[3, 6, 1, 0, 0], [2, 2, 5, 4, 1]], "int32")
LOGITS = np.random.default_rng(1).normal(scale=3.0, size=(*IDS.shape, SIZE)).astype("float32")
TOKENS = np.count_nonzero(IDS)


def by_definition(eps):
    """The cross-entropy of each position against (1 - eps) on the target and eps over the vocabulary, in float64."""
    logits = LOGITS.astype("float64")
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = (1 - eps) * np.eye(SIZE)[IDS] + eps / SIZE
    return -(wanted * log_probabilities).sum(-1)


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_the_loss_is_the_mean_over_real_tokens(eps):
    expected = by_definition(eps)[IDS != 0].sum() / TOKENS
    assert float(SmoothedCrossEntropy(eps)(IDS, LOGITS)) == pytest.approx(expected, rel=1e-5)
    sums = cross_entropy(LOGITS.reshape(-1, SIZE), IDS.reshape(-1), eps)
    assert float(sums.smoothed / TOKENS) == pytest.approx(expected, rel=1e-5)


def test_the_other_reductions_are_the_sum_and_one_loss_per_position():
    expected = by_definition(0.1) * (IDS != 0)
    assert float(SmoothedCrossEntropy(reduction="sum")(IDS, LOGITS)) == pytest.approx(expected.sum(), rel=1e-5)
    for none in ("none", None):
        np.testing.assert_allclose(SmoothedCrossEntropy(reduction=none)(IDS, LOGITS), expected, rtol=1e-5)


@pytest.mark.parametrize("weights", [[0.0, 2.0], np.arange(10.0).reshape(2, 5)])
def test_sample_weights_make_a_weighted_mean(weights):
    of_tokens = np.broadcast_to(np.reshape(weights, (2, -1)), IDS.shape) * (IDS != 0)
    expected = (by_definition(0.1) * of_tokens).sum() / of_tokens.sum()
    assert float(SmoothedCrossEntropy()(IDS, LOGITS, np.array(weights))) == pytest.approx(expected, rel=1e-5)


def test_16_bit_logits_are_computed_in_float32():
    low = ops.cast(LOGITS, "bfloat16")
    loss = SmoothedCrossEntropy()(IDS, low)
    assert loss.dtype == "float32"
    assert float(loss) == pytest.approx(float(SmoothedCrossEntropy()(IDS, ops.cast(low, "float32"))), rel=1e-6)


def test_reductions_that_count_padding_and_label_smoothing_out_of_range_are_refused():
    for reduction in ("mean", "sum_over_batch_size", "average"):
        with pytest.raises(UserError, match=f"reduction='{reduction}' .* one of mean_with_sample_weight, sum, none"):
            SmoothedCrossEntropy(reduction=reduction)
    for eps in (-0.1, 1.0):
        with pytest.raises(UserError, match=f"label_smoothing={eps} is out of range"):
            SmoothedCrossEntropy(eps)


@pytest.mark.parametrize("module", [losses, schedules])
def test_the_example_runs(module):
    results = doctest.testmod(module)
    assert results.attempted and not results.failed


MASK = 2**64 - 1


def philox(counter, key):
    """Philox4x32-10 of Salmon et al. 2011, figure 4, on Python ints: four 32-bit numbers."""
    words = [counter >> (32 * i) & 0xFFFFFFFF for i in range(4)]
    low, high = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        products = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        first, third = products[1] >> 32 ^ words[1] ^ low, products[0] >> 32 ^ words[3] ^ high
        words = [first, products[1] & 0xFFFFFFFF, third, products[0] & 0xFFFFFFFF]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return words


def numbers_of_row(seed, step, place, row, size):
    """The numbers of a row with the given number of elements, by the definition."""
    blocks = -(-size // 8)
    key = ((seed << 32) + step) & MASK
    words = [word for block in range(blocks) for word in philox((place << 64) + row * blocks + block, key)]
    return np.array([half for word in words for half in (word & 0xFFFF, word >> 16)])[:size]


SEEDS = [(1, 2, 0), (5, 0, 7), (2**31 - 1, 2**32 - 1, 12345), (2**32 - 1, 9, 3)]


@pytest.mark.parametrize(("seed", "step", "row"), SEEDS)
# Row sizes that are and are not multiples of a block; the first dimension may be larger than the number of rows.
@pytest.mark.parametrize("shape", [(2, 8), (2, 21), (2, 5, 16), (2 * 5, 16), (2, 2, 3, 3), (2, 1)])
def test_numbers_of_a_row_follow_the_definition_of_philox(seed, step, row, shape):
    seeds = DropoutSeeds(seed, step, row, rows=2)
    for place in (1, 2):
        numbers = np.array(seeds.uint16_like(tf.zeros(shape)))
        assert numbers.dtype == np.uint16 and numbers.shape == shape
        for offset, found in enumerate(numbers.reshape(2, -1)):
            np.testing.assert_array_equal(found, numbers_of_row(seed, step, place, row + offset, found.size))


@pytest.mark.parametrize("width", [3, 16])
def test_the_step_and_sizes_may_be_unknown_in_a_graph(width):
    @tf.function(input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([None, None, width])], autograph=False)
    def draw(step, x):
        return DropoutSeeds(3, step, 2, tf.shape(x)[0]).uint16_like(x)

    for step, rows, length in ((4, 2, 5), (5, 4, 8)):
        x = tf.zeros([rows, length, width])
        np.testing.assert_array_equal(draw(step, x), DropoutSeeds(3, step, 2, rows).uint16_like(x))
