"""Random sampling of the next token, as an alternative to search."""

from typing import NamedTuple

import tensorflow as tf

from t2t_lite.arrays import static_size
from t2t_lite.decoding.search.beam_state import NONE
from t2t_lite.decoding.search.candidates import Candidates


class Sampling(NamedTuple):
    temperature: float  # divides the logits: above 1 the distribution is flatter, below 1 sharper
    top_k: int = 0  # sample from the top_k most probable tokens (Fan et al. 2018); 0: from all
    top_p: float = 1.0  # sample from the smallest set of tokens with total probability top_p (Holtzman et al. 2020)

    def candidates(
        self, logits: tf.Tensor, normalizer: tf.Tensor, log_probs: tf.Tensor, uniforms: tf.Tensor
    ) -> Candidates:
        """Extends the only hypothesis of each sentence by a randomly drawn token, see `best_candidates`.

        `uniforms` is float32 [batch, 1], random numbers in [0, 1).
        """
        tokens = sample_tokens(logits[:, 0], uniforms[:, 0], self)[:, tf.newaxis]
        chosen = tf.gather(logits, tokens[:, :, tf.newaxis], batch_dims=2) - normalizer  # [batch, 1, 1]
        extended = tf.maximum(chosen[:, :, 0] + log_probs, NONE)
        return Candidates(extended, tf.zeros_like(tokens), tokens, extended)


def sample_tokens(logits: tf.Tensor, uniforms: tf.Tensor, sampling: Sampling) -> tf.Tensor:
    """Draws one token, int32 [rows], from the distribution of each row of logits, float32 [rows, vocab].

    `uniforms` are random numbers, float32 [rows] in [0, 1). A sample depends only on these and on the logits.
    """
    logits = logits / sampling.temperature
    size = static_size(logits, 1)
    tokens = None
    if sampling.top_k or sampling.top_p < 1.0:
        logits, tokens = tf.math.top_k(logits, min(sampling.top_k or size, size))
    probabilities = tf.nn.softmax(logits)
    up_to_here = tf.cumsum(probabilities, axis=1)
    if sampling.top_p < 1.0:
        # Keep the most probable tokens, up to the one at which the cumulative probability reaches top_p.
        probabilities = tf.where(up_to_here - probabilities < sampling.top_p, probabilities, 0.0)
        up_to_here = tf.cumsum(probabilities, axis=1)
    drawn = uniforms[:, tf.newaxis] * up_to_here[:, -1:]
    places = tf.reduce_sum(tf.cast(up_to_here <= drawn, tf.int32), 1)
    # Rounding may select a place beyond the last token with non-zero probability.
    last = tf.reduce_max(tf.where(probabilities > 0, tf.range(tf.shape(probabilities)[1]), 0), 1)
    places = tf.minimum(places, last)
    return places if tokens is None else tf.gather(tokens, places, batch_dims=1)
