"""The loss of a batch, summed over its tokens, and the random numbers for its dropout."""

import math
from typing import Generic, NamedTuple, TypeVar

import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.layers.cross_entropy import CrossEntropySums, cross_entropy, linear_cross_entropy, linear_rdrop
from t2t_lite.layers.dropout import Seeds
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
    if (factors := model.factors_of_logits(inputs, targets, seeds)) is None:
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
    return linear_rdrop(x, passes[0][1], tf.reshape(targets, [-1]), hparams.label_smoothing, hparams.rdrop_alpha)


def _num_tokens(targets: tf.Tensor) -> tf.Tensor:
    return tf.math.count_nonzero(targets, dtype=tf.float32)


# A Philox block, generated from one counter value: four 32-bit numbers, or eight 16-bit numbers.
_WORDS, _NUMBERS = 4, 8
_PHILOX = 1  # its id among the algorithms of tf.random


class DropoutSeeds:
    """Generates the random numbers for one step's dropout, for contiguous rows of the global batch.

    Each number is a function of (random seed, step, index of the dropout call in the step, row in the global batch,
    element in the row). It does not depend on the number of devices and micro-batches, or on restarts. The function is
    Philox (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") with the key (seed, step) and the counter
    (block, call). Each row uses as many consecutive blocks of 8 numbers as its elements need. No two dropout calls,
    rows or steps of a run share a block.

    Only the last 32 bits of the seed are used, and the step must be below 2**32. `first_row`, an int64 scalar, is the
    index of the first of the `rows` rows, counted in the global batch.
    """

    def __init__(self, random_seed: int, step: tf.Tensor, first_row: tf.Tensor, rows: int | tf.Tensor) -> None:
        seed = (random_seed & 0x7FFFFFFF) - (random_seed & 0x80000000)  # as int32, so that the key fits into int64
        self._key = _uint64(tf.reshape(seed * 2**32 + tf.cast(step, tf.int64), [1]))
        self._first_row, self._rows = tf.cast(first_row, tf.int64), rows
        self._calls = 0

    def uint16_like(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the random numbers for the next dropout call: uint16 in the shape of x, uniform from 0 to 65535.

        x must consist of consecutive rows of equal size.
        """
        self._calls += 1
        size = tf.size(x)
        # Whether the last block of a row may be partial; if not, counting the blocks takes fewer operations.
        is_partial = math.prod(size for size in x.shape[1:] if size is not None) % _NUMBERS > 0
        if is_partial:
            of_row = size // self._rows
            blocks = -(-of_row // _NUMBERS)
            of_batch = self._rows * blocks
        else:
            of_batch = size // _NUMBERS
            blocks = of_batch // self._rows
        first = self._first_row * tf.cast(blocks, tf.int64)
        words = tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=[of_batch, _WORDS],
            key=self._key,
            counter=_uint64(tf.stack([first, tf.constant(self._calls, tf.int64)])),
            alg=_PHILOX,
            dtype=tf.uint32,
        )
        numbers = tf.bitcast(words, tf.uint16)  # [blocks of all rows, 4, 2]
        if is_partial:
            numbers = tf.reshape(numbers, [self._rows, blocks * _NUMBERS])[:, :of_row]
        return tf.reshape(numbers, tf.shape(x))


def _uint64(numbers: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(numbers, tf.uint64)
