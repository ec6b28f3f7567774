"""The loss of a batch, summed over its tokens, from a model's logits or from the factors of its logits."""

from typing import Generic, NamedTuple, TypeVar

import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.layers.cross_entropy import CrossEntropySums, cross_entropy, linear_cross_entropy
from t2t_lite.layers.dropout import Seeds
from t2t_lite.layers.rdrop import linear_rdrop
from t2t_lite.models.base import Seq2SeqModel

Number = TypeVar("Number", tf.Tensor, float)


class LossSums(NamedTuple, Generic[Number]):
    """Sums over the real target tokens of a batch; for means, divide them by the `tokens` of the global batch.

    Only `smoothed` is differentiable.
    """

    smoothed: Number  # float32, the training objective
    plain: Number  # float32, negative log-likelihood in nats: perplexity is exp(plain / tokens)
    tokens: Number  # float32, number of real target tokens


def training_loss(model: Seq2SeqModel, inputs: tf.Tensor, targets: tf.Tensor, seeds: Seeds) -> LossSums[tf.Tensor]:
    """Returns the loss of a batch of inputs and targets, int32 [rows, length], with dropout from `seeds`."""
    of_batch = _model_rdrop if model.hparams.rdrop_alpha else _model_cross_entropy
    sums = of_batch(model, inputs, targets, seeds)
    return LossSums(sums.smoothed, sums.plain, _num_tokens(targets))


def evaluation_sums(model: Seq2SeqModel, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Returns the `TokenSums` of a batch of inputs and targets, int32 [rows, length], as float32 [4]."""
    sums = _model_cross_entropy(model, inputs, targets, None)
    return tf.stack([sums.smoothed, sums.plain, _num_tokens(targets), sums.correct])


def _model_cross_entropy(
    model: Seq2SeqModel, inputs: tf.Tensor, targets: tf.Tensor, seeds: Seeds | None
) -> CrossEntropySums:
    labels, label_smoothing = tf.reshape(targets, [-1]), model.hparams.label_smoothing
    factors = model.factors_of_logits(inputs, targets, seeds)
    if factors is None:
        logits = model(inputs, targets, seeds=seeds)
        return cross_entropy(tf.reshape(logits, [-1, model.vocab_size]), labels, label_smoothing)
    x, weight = factors
    flat = tf.reshape(x, [-1, x.shape[-1]])
    with tf.name_scope("loss"):  # profiles show it
        return linear_cross_entropy(flat, weight, labels, label_smoothing, trains=seeds is not None)


def _model_rdrop(model: Seq2SeqModel, inputs: tf.Tensor, targets: tf.Tensor, seeds: Seeds) -> CrossEntropySums:
    """Returns the R-Drop loss of two passes, which take different random numbers from the same seeds."""
    hparams = model.hparams
    passes = [factors for _ in range(2) if (factors := model.factors_of_logits(inputs, targets, seeds))]
    if not passes:
        raise UserError(
            f"hparams=rdrop_alpha={hparams.rdrop_alpha}: {type(model).__name__} does not return the factors of its "
            f"logits; set rdrop_alpha=0, or define factors_of_logits"
        )
    x = tf.stack([tf.reshape(of_pass, [-1, of_pass.shape[-1]]) for of_pass, _ in passes])
    labels = tf.reshape(targets, [-1])
    return linear_rdrop(x, passes[0][1], labels, hparams.label_smoothing, hparams.rdrop_alpha)


def _num_tokens(targets: tf.Tensor) -> tf.Tensor:
    return tf.math.count_nonzero(targets, dtype=tf.float32)
