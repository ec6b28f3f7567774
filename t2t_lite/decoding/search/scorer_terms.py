"""Terms that are added to the score of an output, besides length and coverage penalty."""

from typing import Protocol

import tensorflow as tf

from t2t_lite.decoding.search.beam_state import SearchInputs


class ScorerTerm(Protocol):
    """A term of an output's score. It must be frozen and hashable, because a search is compiled for its terms."""

    def term(self, ids: tf.Tensor, lengths: tf.Tensor, inputs: SearchInputs) -> tf.Tensor:
        """Returns what is added to the score of each output, float32 [batch, outputs], at most 0.

        A search stops when no alive hypothesis can have a better score, so what is above 0 counts as 0.

        Args:
          ids: int32 [batch, outputs, max_length], the tokens, 0 after the last one.
          lengths: int32 [batch, outputs], number of tokens, including the end symbol if there is one.
          inputs: the search inputs; `inputs.constraint_inputs` holds the arrays that this term needs, by name.
        """
        ...
