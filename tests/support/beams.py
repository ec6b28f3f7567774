"""Searches that are made up."""

import numpy as np


def beam_search(step, decoder_state, batch_size, vocab_size, *, beam_size, alpha, max_length, **options):
    """A complete search in one call. Options are those of `BeamSearch`, fields of `SearchInputs`, and length_limits."""
    import tensorflow as tf

    from t2t_lite.decoding.search.beam_search import BeamSearch
    from t2t_lite.decoding.search.beam_state import SearchInputs

    limits = options.pop("length_limits", None)
    limits = tf.fill([batch_size], max_length) if limits is None else limits
    limits = tf.clip_by_value(tf.cast(limits, tf.int32), 1, max_length)
    inputs = SearchInputs(limits, **{name: options.pop(name) for name in SearchInputs._fields if name in options})
    search = BeamSearch(vocab_size, beam_size, alpha, **options)
    return search.result(search.advance(step, search.start(inputs, decoder_state, max_length), inputs).finished)


def descending_beams(batch, beam_size, length, tokens=10, room=0, seed=0):
    """Yields (position, ancestry with `room` for more, all tokens: int32 [batch, beam, position + 1], first 0)."""
    from t2t_lite.layers.beam_ancestry import initial_ancestry, next_ancestry

    random = np.random.default_rng(seed)
    ancestry = initial_ancestry(batch, beam_size, length + room)
    parents = np.broadcast_to(np.arange(beam_size, dtype="int32"), (batch, beam_size))
    histories = np.zeros((batch, beam_size, 1), "int32")
    for position in range(length):
        ancestry = next_ancestry(ancestry, parents, position)
        yield position, ancestry, histories
        parents = random.integers(0, beam_size, (batch, beam_size)).astype("int32")
        newest = random.integers(1, tokens, (batch, beam_size, 1)).astype("int32")
        histories = np.concatenate([np.take_along_axis(histories, parents[:, :, None], axis=1), newest], axis=2)
