"""Concatenates training pairs, so that a model also learns long texts (Nguyen et al. 2021, arXiv 2105.01691)."""

import tensorflow as tf


class PairConcatenation:
    """Appends another pair to some pairs in a window, at random. Each pair also keeps its own place in the epoch.

    A pair stays alone if a side of the joined pair would have more than `longest` tokens.
    """

    def __init__(self, rate: float, longest: int) -> None:
        self._rate = rate
        self._longest = longest

    def __call__(
        self, inputs: tf.RaggedTensor, targets: tf.RaggedTensor, seed: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Appends another pair to some pairs, int32 [pairs, (length)] with end symbols. The seed is int64 [2]."""
        sides = inputs, targets
        pairs = inputs.nrows()
        draws = tf.random.stateless_uniform([2, pairs], seed, dtype=tf.float64)
        others = tf.cast(draws[0] * tf.cast(pairs, tf.float64), tf.int64)
        appends = draws[1] < self._rate
        for side in sides:
            lengths = side.row_lengths()
            appends &= lengths + tf.gather(lengths, others) - 1 <= self._longest
        first, second = (_appended(side, others, appends) for side in sides)
        return first, second


def _appended(texts: tf.RaggedTensor, others: tf.Tensor, appends: tf.Tensor) -> tf.RaggedTensor:
    """Replaces the end symbol with another text from the window where `appends` is true."""
    other_texts = tf.gather(texts, others)
    without_end = _shortened(texts, texts.row_lengths() - tf.cast(appends, tf.int64))
    return tf.concat([without_end, _shortened(other_texts, tf.where(appends, other_texts.row_lengths(), 0))], axis=1)


def _shortened(texts: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    return tf.ragged.boolean_mask(texts, tf.ragged.range(texts.row_lengths()) < lengths[:, tf.newaxis])
