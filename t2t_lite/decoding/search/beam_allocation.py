"""Dynamic beam allocation: divides the beam of a search for `Phrases` by how many of their tokens hypotheses contain.

Hypotheses with the same number of tokens are a bank, and each bank has the same share of the beam; what a bank cannot
use goes to the others. So there is always a hypothesis that advances, and others that wait for a better place.

Source: Post and Vilar 2018, section 3 (https://arxiv.org/abs/1804.06609).
"""

import tensorflow as tf

from t2t_lite.decoding.search.beam_state import EXISTS, NONE
from t2t_lite.decoding.search.candidates import Candidates

# What a score is lowered by for each token of a missing phrase, if an output ends at its length limit without it. Above
# all differences of scores, so that such outputs rank below all others.
MISSING = 1e5


def with_proposals(
    candidates: Candidates, proposed: tf.Tensor, logits: tf.Tensor, normalizer: tf.Tensor, log_probs: tf.Tensor
) -> Candidates:
    """Returns candidates and those that are proposed in addition, which may be forbidden: Candidates.

    Args:
      candidates: the best ones.
      proposed: int32 [batch, beam, n], tokens from `Phrases.proposals`, 0 for none.
      logits, normalizer, log_probs: see `best_candidates`.
    """
    batch, beam, count = tf.shape(proposed)[0], proposed.shape[1], tf.shape(proposed)[2]
    parents = tf.broadcast_to(tf.range(beam)[:, tf.newaxis], tf.shape(proposed))
    extended = tf.gather(logits, proposed, batch_dims=2) - normalizer + log_probs[:, :, tf.newaxis]
    # A token that is proposed twice, or is among the candidates, counts once.
    is_earlier = tf.range(count) < tf.range(count)[:, tf.newaxis]
    again = tf.reduce_any((proposed[:, :, :, tf.newaxis] == proposed[:, :, tf.newaxis]) & is_earlier, -1)
    is_theirs = candidates.parents[:, tf.newaxis] == tf.range(beam)[:, tf.newaxis]  # [batch, beam, candidates]
    same = proposed[:, :, :, tf.newaxis] == candidates.tokens[:, tf.newaxis, tf.newaxis]
    again |= tf.reduce_any(same & is_theirs[:, :, tf.newaxis], -1)
    extended = tf.where(again | (proposed == 0), NONE, tf.maximum(extended, NONE))
    log_probs, parents, tokens = (tf.reshape(part, [batch, -1]) for part in (extended, parents, proposed))
    more = Candidates(log_probs, parents, tokens, log_probs)
    return Candidates(*(tf.concat(parts, 1) for parts in zip(candidates, more)))


def allocated(merits: tf.Tensor, banks: tf.Tensor, num_banks: tf.Tensor, width: int) -> tf.Tensor:
    """Returns which candidates get a place in the beam: int32 [batch, width].

    The best of each bank come first, from the highest bank to the lowest, then the second best, and so on. So the banks
    have equal shares, and the rest goes to the higher ones.

    Args:
      merits: float32 [batch, candidates], `NONE` for candidates that do not stay alive.
      banks: int32 [batch, candidates].
      num_banks: int32 [], more than the highest bank.
      width: places.
    """
    merits, order = tf.math.top_k(merits, merits.shape[1] or tf.shape(merits)[1])  # [batch, candidates]
    banks = tf.gather(banks, order, batch_dims=1)
    exists = merits > EXISTS
    in_bank = tf.where(exists[:, :, tf.newaxis], tf.one_hot(banks, num_banks), 0.0)  # [batch, candidates, banks]
    ranks = tf.reduce_sum(tf.cumsum(in_bank, axis=1, exclusive=True) * in_bank, -1)  # [batch, candidates]
    priority = tf.cast(banks, tf.float32) - ranks * tf.cast(num_banks, tf.float32)
    _, first = tf.math.top_k(tf.where(exists, priority, NONE), width)
    return tf.gather(order, first, batch_dims=1)
