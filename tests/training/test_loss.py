"""The loss by the factors of the logits against that by the logits, for models that offer both."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.layers.embedding import Embedding
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
