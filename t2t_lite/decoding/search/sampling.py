"""Drawing the next token at random instead of searching for the best."""

from typing import NamedTuple

import tensorflow as tf


class Sampling(NamedTuple):
    """How to draw."""

    temperature: float  # logits are divided by it: above 1 flatter, below 1 nearer to the best token
    top_k: int = 0  # draw among so many most probable tokens (Fan et al. 2018); 0: among all
    top_p: float = 1.0  # draw among the fewest tokens that have this much probability (Holtzman et al. 2020)


def sample_tokens(logits, uniforms, sampling):
    """Draws a token from each row.

    The numbers that it draws with come from outside, so that a sample depends on nothing but them and the logits.

    Args:
      logits: float32 [rows, vocab].
      uniforms: float32 [rows] from [0, 1).
      sampling: `Sampling`.

    Returns:
      int32 [rows].
    """
    logits = logits / sampling.temperature
    size = logits.shape[1]
    tokens = None
    if sampling.top_k or sampling.top_p < 1.0:
        logits, tokens = tf.math.top_k(logits, min(sampling.top_k or size, size))
    probabilities = tf.nn.softmax(logits)
    up_to_here = tf.cumsum(probabilities, axis=1)
    if sampling.top_p < 1.0:
        # The most probable tokens that reach top_p together: those before which it was not reached yet.
        probabilities = tf.where(up_to_here - probabilities < sampling.top_p, probabilities, 0.0)
        up_to_here = tf.cumsum(probabilities, axis=1)
    drawn = uniforms[:, tf.newaxis] * up_to_here[:, -1:]
    places = tf.reduce_sum(tf.cast(up_to_here <= drawn, tf.int32), 1)
    # Rounding may lead beyond the last token that can be drawn.
    last = tf.reduce_max(tf.where(probabilities > 0, tf.range(tf.shape(probabilities)[1]), 0), 1)
    places = tf.minimum(places, last)
    return places if tokens is None else tf.gather(tokens, places, batch_dims=1)
