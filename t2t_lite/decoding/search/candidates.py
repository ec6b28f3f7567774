"""Candidates: the best one-token extensions of a sentence's alive hypotheses."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from t2t_lite.arrays import static_size
from t2t_lite.decoding.search.beam_state import NONE


class Candidates(NamedTuple):
    """One-token extensions of alive hypotheses, best first."""

    log_probs: tf.Tensor  # float32 [batch, candidates], at least -1e9
    parents: tf.Tensor  # int32 [batch, candidates], the extended alive hypothesis, 0 <= parent < beam
    tokens: tf.Tensor  # int32 [batch, candidates], the new token
    merits: tf.Tensor  # float32 [batch, candidates], log_probs minus the diversity penalty, for ranking


def log_normalizer(logits: tf.Tensor) -> tf.Tensor:
    """Returns log(sum(exp(logits))) over the last axis, which is kept with size 1."""
    highest = tf.reduce_max(logits, -1, keepdims=True)
    return highest + tf.math.log(tf.reduce_sum(tf.exp(logits - highest), -1, keepdims=True))


def best_candidates(
    logits: tf.Tensor,
    normalizer: tf.Tensor,
    log_probs: tf.Tensor,
    never: Sequence[int] = (),
    penalty: tf.Tensor | None = None,
) -> Candidates:
    """Returns the extensions with the highest merits: log-probabilities minus the `penalty`.

    The best tokens of each hypothesis are selected from the raw logits, and only these are normalized. The result
    equals top_k over all beam * vocabulary merits of a sentence, which are never written to memory. It has 2 * beam
    candidates: at most beam of them end, so at least beam stay alive. With one beam there is one candidate, because in
    greedy search the best token alone decides whether the hypothesis ends.

    Args:
      logits: float32 [batch, beam, vocab].
      normalizer: float32 [batch, beam, 1], from `log_normalizer`.
      log_probs: float32 [batch, beam], of the alive hypotheses.
      never: token ids to exclude. They are masked after the selection, which is cheaper than a pass over all logits.
      penalty: float32 [batch, vocab], lowers the merits of tokens but not their log-probabilities; None: no penalty.
    """
    beam_size, vocab_size = static_size(logits, 1), static_size(logits, 2)
    wanted = 1 if beam_size == 1 else 2 * beam_size
    per_row = min(wanted + len(never), vocab_size)
    if penalty is not None:
        logits -= penalty[:, tf.newaxis]
    best, tokens = blockwise_top_k(tf.reshape(logits, [-1, vocab_size]), per_row)  # [rows, per_row]
    for token in never:
        best = tf.where(tokens == token, NONE, best)
    extended = tf.reshape(best, [-1, beam_size, per_row]) - normalizer + log_probs[:, :, tf.newaxis]
    extended = tf.reshape(tf.maximum(extended, NONE), [-1, beam_size * per_row])  # [batch, beam * per_row]
    extended, chosen = tf.math.top_k(extended, min(wanted, beam_size * per_row))  # [batch, candidates]
    tokens = tf.gather(tf.reshape(tokens, [-1, beam_size * per_row]), chosen, batch_dims=1)  # [batch, candidates]
    unlowered = extended
    if penalty is not None:
        # Restores the log-probabilities, except those of forbidden tokens.
        unlowered += tf.where(extended > NONE, tf.gather(penalty, tokens, batch_dims=1), 0.0)
    return Candidates(unlowered, chosen // per_row, tokens, extended)


def blockwise_top_k(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns tf.math.top_k of logits [rows, vocab], up to the order of equal logits; faster for a large vocabulary.

    The `count` largest logits lie in the `count` blocks of the vocabulary with the largest maxima. Maxima are much
    cheaper than top_k, which then searches only the maxima and the chosen blocks, in a third of the time or less.
    Adjacent logits belong to different blocks, so that the maxima of many blocks are computed at once.
    """
    vocab_size = static_size(logits, 1)
    best_length = int((vocab_size / count) ** 0.5)
    near = [n for n in range(best_length // 2, 2 * best_length) if n > 1 and vocab_size % n == 0]
    if vocab_size < 16 * count or not near:  # a small vocabulary, or one that equal blocks cannot divide
        return tf.math.top_k(logits, count)
    length = min(near, key=lambda n: abs(n - best_length))
    number = vocab_size // length
    blocks = tf.reshape(logits, [-1, length, number])  # [rows, length, blocks]
    _, chosen = tf.math.top_k(tf.reduce_max(blocks, 1), count)  # [rows, count]
    inside = tf.gather(tf.transpose(blocks, [0, 2, 1]), chosen, batch_dims=1)  # [rows, count, length]
    best, places = tf.math.top_k(tf.reshape(inside, [-1, count * length]), count)  # [rows, count]
    tokens = places % length * number + tf.gather(chosen, places // length, batch_dims=1)  # [rows, count]
    return best, tokens
