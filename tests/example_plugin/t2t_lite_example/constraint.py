"""A constraint of the search: no token twice in a row."""

import dataclasses

import tensorflow as tf

from t2t_lite.decoding.search.beam_state import NONE
from t2t_lite.decoding.search_requests import LineConstraint


@dataclasses.dataclass(frozen=True)
class NoStutter:
    """Forbids the token that each hypothesis ends with."""

    vocab_size: int

    def apply(self, logits, unconstrained, state, inputs):
        """See `Constraint`."""
        return tf.where(tf.one_hot(state.last, self.vocab_size, True, False), NONE, logits)


def no_stutter(lines):
    """Returns the constraint; it is the same for all lines."""
    return LineConstraint(NoStutter(lines.vocabulary.size))
