"""Beam search under JAX for measurements: a fixed number of steps, without end symbols or length penalty."""

import jax
import jax.numpy as jnp

from t2t_lite.layers.beam_ancestry import initial_ancestry, next_ancestry
from t2t_lite.models.base import Seq2SeqModel


def beam_search(model: Seq2SeqModel, inputs: jax.Array, beam_size: int, num_steps: int) -> tuple[jax.Array, jax.Array]:
    """Returns the best outputs, each of `num_steps` tokens, and their log-probabilities.

    Args:
      model: a built model.
      inputs: int32 [batch, source length], padded with 0.
      beam_size: number of hypotheses per sentence.
      num_steps: number of tokens.

    Returns:
      (int32 [batch, beam, num_steps], their log-probabilities, float32 [batch, beam]), in descending order.
    """
    batch = inputs.shape[0]
    encoded_source, state = model.start_decoding(inputs, beam_size, num_steps)
    ids = jnp.zeros((batch, beam_size), jnp.int32)
    # All hypotheses are equal at first, so only the first one counts.
    scores = jnp.broadcast_to(jnp.where(jnp.arange(beam_size) == 0, 0.0, -jnp.inf), (batch, beam_size))
    outputs = jnp.zeros((batch, beam_size, num_steps), jnp.int32)
    parents = jnp.broadcast_to(jnp.arange(beam_size, dtype=jnp.int32), (batch, beam_size))
    ancestry = initial_ancestry(batch, beam_size, num_steps)

    def step(position: jax.Array, carry: tuple) -> tuple:
        ids, scores, outputs, parents, ancestry, state = carry
        ancestry = next_ancestry(ancestry, parents, position)
        logits, state, _ = model.decode_step(ids, position, encoded_source, state, ancestry)
        totals = scores[:, :, None] + jax.nn.log_softmax(logits.astype(jnp.float32))
        scores, places = jax.lax.top_k(totals.reshape(batch, -1), beam_size)
        parents, ids = (part.astype(jnp.int32) for part in jnp.divmod(places, logits.shape[-1]))
        outputs = jnp.take_along_axis(outputs, parents[:, :, None], axis=1).at[:, :, position].set(ids)
        return ids, scores, outputs, parents, ancestry, state

    carry = jax.lax.fori_loop(0, num_steps, step, (ids, scores, outputs, parents, ancestry, state))
    return carry[2], carry[1]
