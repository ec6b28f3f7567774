"""What an output may not be: each function takes logits and gives them with the forbidden pieces out of reach.

Logits are float32 [batch, beam, vocab].
"""

import tensorflow as tf

from t2t_lite.decoding.search.beam_state import NONE


def forbid(logits, pieces):
    """Forbids some pieces, a tuple of their ids, everywhere."""
    forbidden = tf.reduce_any(tf.range(tf.shape(logits)[2])[:, tf.newaxis] == tf.constant(pieces, tf.int32), 1)
    return tf.where(forbidden, NONE, logits)


def forbid_end(logits, eos_id, too_early):
    """Forbids the end symbol in the sentences for which it is too early, bool [batch]."""
    end = tf.range(tf.shape(logits)[2]) == eos_id
    return tf.where(too_early[:, tf.newaxis, tf.newaxis] & end, NONE, logits)


def force_prefix(logits, free, prefixes, position):
    """Forbids everything but the prefix's piece, as long as there is one; that may not be forbidden by other rules.

    Args:
      logits: float32 [batch, beam, vocab].
      free: the same, before anything was forbidden.
      prefixes: int32 [batch, length], padded with 0.
      position: int32 [], of the piece to be chosen.
    """
    here = tf.range(tf.shape(prefixes)[1]) == position
    wanted = tf.reduce_sum(tf.where(here, prefixes, 0), 1)[:, tf.newaxis, tf.newaxis]  # 0: nothing
    forced = tf.where(tf.range(tf.shape(logits)[2]) == wanted, free, NONE)
    return tf.where(wanted > 0, forced, logits)


def forbid_repeats(logits, ids, position, size):
    """Forbids every piece that would make the last `size` pieces of a hypothesis an n-gram that it already has.

    Args:
      logits: float32 [batch, beam, vocab].
      ids: int32 [batch, beam, max_length], the hypotheses' pieces.
      position: int32 [], how many they are.
      size: n, at least 1.
    """
    shape = tf.shape(logits)
    starts = tf.maximum(tf.shape(ids)[2] - size + 1, 0)  # n-grams that fit into max_length
    # Those whose last piece has been chosen.
    same = tf.broadcast_to(tf.range(starts) + size <= position, [shape[0], shape[1], starts])
    for place in range(size - 1):
        newest = tf.gather(ids, tf.maximum(position - size + 1 + place, 0), axis=2)  # [batch, beam]
        same &= ids[:, :, place : place + starts] == newest[:, :, tf.newaxis]
    ends = tf.reshape(ids[:, :, size - 1 : size - 1 + starts], [-1, starts])  # [rows, starts], the n-grams' last pieces
    rows = tf.broadcast_to(tf.range(shape[0] * shape[1])[:, tf.newaxis], tf.shape(ends))
    values = tf.where(tf.reshape(same, [-1, starts]), NONE, logits.dtype.max)
    flat = tf.reshape(logits, [-1, shape[2]])
    flat = tf.tensor_scatter_nd_min(flat, tf.stack([rows, ends], -1), values)
    return tf.reshape(flat, shape)
