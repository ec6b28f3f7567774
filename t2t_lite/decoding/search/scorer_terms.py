"""Terms added to an output's score besides the length penalty: the coverage penalty and registered terms."""

import dataclasses
from typing import Any, ClassVar, Protocol, runtime_checkable

import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.decoding.search.beam_state import BeamState, Candidates, SearchInputs

# Lower bound on a source token's coverage: the logarithm of a smaller value would outweigh any log-probability.
_MIN_COVERAGE = 1e-6


class ScorerTerm(Protocol):
    """A term of an output's score. It must be frozen and hashable, because a search is compiled for its terms."""

    def term(self, ids: tf.Tensor, lengths: tf.Tensor, inputs: SearchInputs) -> tf.Tensor:
        """Returns the term added to the score of each output, float32 [batch, outputs], at most 0.

        A search stops when no alive hypothesis can reach a better score, so positive values count as 0.

        Args:
          ids: int32 [batch, outputs, max_length], the tokens, 0 after the last one.
          lengths: int32 [batch, outputs], number of tokens, including the end symbol if there is one.
          inputs: the search inputs; `inputs.constraint_inputs` holds the arrays that this term needs, by name.
        """
        ...


@runtime_checkable
class Feature(Protocol):
    """Data that a search keeps about each hypothesis besides its tokens, and the score term computed from it."""

    name: ClassVar[str]  # of this data in `BeamState.features`

    def start(self, inputs: SearchInputs, beam_size: int) -> Any:  # noqa: ANN401  a nest of tensors
        """Returns the state of empty hypotheses: a nest of tensors [batch, beam, ...]."""
        ...

    def extended(self, state: BeamState, candidates: Candidates, attention: Array, inputs: SearchInputs) -> Any:  # noqa: ANN401
        """Returns the state of each candidate, [batch, candidates, ...]; for `attention` see `BeamSearch`."""
        ...

    def score(self, extended: Any, inputs: SearchInputs) -> tf.Tensor:  # noqa: ANN401
        """Returns the score term of each candidate if it ends here, at most 0: float32 [batch, candidates]."""
        ...


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The coverage penalty, a `Feature`; it keeps the attention on each source token, float32 [batch, beam, source]."""

    name: ClassVar[str] = "coverage"
    beta: float  # see `coverage_penalty`

    def start(self, inputs: SearchInputs, beam_size: int) -> tf.Tensor:
        batch, length = tf.unstack(tf.shape(inputs.source_mask))
        return tf.zeros([batch, beam_size, length])

    def extended(self, state: BeamState, candidates: Candidates, attention: Array, inputs: SearchInputs) -> tf.Tensor:
        return tf.gather(state.features[self.name] + attention, candidates.parents, batch_dims=1)

    def score(self, extended: tf.Tensor, inputs: SearchInputs) -> tf.Tensor:
        return coverage_penalty(extended, inputs.source_mask[:, tf.newaxis], self.beta)


def coverage_penalty(coverage: tf.Tensor, source_mask: tf.Tensor, beta: float) -> tf.Tensor:
    """Returns the term cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1)) of a hypothesis' score, at most 0.

    Args:
      coverage: float32 [..., source], sum_j p_ij: the attention that each source token received from all output tokens.
      source_mask: bool, broadcastable to `coverage`, True = a token, False = padding.
      beta: strength of the penalty, unitless; 0.2 is common.

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 7, equation 14
    (https://arxiv.org/abs/1609.08144).
    """
    missing = tf.math.log(tf.clip_by_value(coverage, _MIN_COVERAGE, 1.0))
    return beta * tf.reduce_sum(tf.where(source_mask, missing, 0.0), -1)
