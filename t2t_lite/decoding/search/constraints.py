"""Constraints of a search: each sets the logits of forbidden next tokens to `NONE`."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf

from t2t_lite.decoding.search.beam_state import NONE, BeamState, SearchInputs, forbid
from t2t_lite.decoding.search.scorer_terms import Feature


class Constraint(Protocol):
    """A rule about the next token. It must be frozen and hashable, because a search is compiled for its constraints.

    A constraint that also has the methods and the name of a `Feature` keeps data about each hypothesis, which it finds
    in `state.features[name]`. One that has those of a `GuidingConstraint` also steers the search.
    """

    def apply(self, logits: tf.Tensor, unconstrained: tf.Tensor, state: BeamState, inputs: SearchInputs) -> tf.Tensor:
        """Returns the logits with those of forbidden tokens set to `NONE`.

        Args:
          logits: float32 [batch, beam, vocab], after the preceding constraints.
          unconstrained: the logits before any constraint.
          state: the hypotheses so far.
          inputs: the search inputs; `inputs.constraint_inputs` holds the arrays that this constraint needs, by name.
        """
        ...


@runtime_checkable
class GuidingConstraint(Constraint, Feature, Protocol):
    """A `Constraint` and `Feature` that adds extensions of hypotheses, and chooses those that stay alive.

    `Phrases` is one: outputs must contain what the search would not find by itself. The constraint sees all hypotheses
    of a sentence, so the search must have one group. At most one constraint of a search can guide it.
    """

    def proposals(self, logits: tf.Tensor, state: BeamState, inputs: SearchInputs) -> tf.Tensor:
        """Returns tokens that must extend each hypothesis, whatever their rank: int32 [batch, beam, n], 0 for none.

        `logits` are float32 [batch, beam, vocab], after all constraints.
        """
        ...

    def kept(self, merits: tf.Tensor, extended: Any, inputs: SearchInputs, width: int) -> tf.Tensor:  # noqa: ANN401
        """Returns the indices of the candidates that stay alive, int32 [batch, width].

        Args:
          merits: float32 [batch, candidates], the log-probabilities; `NONE` for candidates that have ended.
          extended: the `Feature` of each candidate.
          inputs: the search inputs.
          width: the number of hypotheses that stay alive.
        """
        ...


@dataclasses.dataclass(frozen=True)
class MinLength:
    """No output is shorter than `min_lengths` tokens (int32 [batch], end symbol included)."""

    eos_id: int = 1  # the end symbol

    def apply(self, logits: tf.Tensor, unconstrained: tf.Tensor, state: BeamState, inputs: SearchInputs) -> tf.Tensor:
        too_early = state.position + 1 < inputs.constraint_inputs["min_lengths"]
        end = tf.range(tf.shape(logits)[2]) == self.eos_id
        return tf.where(too_early[:, tf.newaxis, tf.newaxis] & end, NONE, logits)


@dataclasses.dataclass(frozen=True)
class NoRepeatNgram:
    """No output contains an n-gram twice."""

    size: int  # n, at least 1

    def apply(self, logits: tf.Tensor, unconstrained: tf.Tensor, state: BeamState, inputs: SearchInputs) -> tf.Tensor:
        ids, position, shape = state.ids, state.position, tf.shape(logits)
        starts = tf.maximum(tf.shape(ids)[2] - self.size + 1, 0)  # number of n-grams that fit into max_length
        # Considers only n-grams whose last token is already chosen.
        same = tf.broadcast_to(tf.range(starts) + self.size <= position, [shape[0], shape[1], starts])
        for place in range(self.size - 1):
            newest = tf.gather(ids, tf.maximum(position - self.size + 1 + place, 0), axis=2)  # [batch, beam]
            same &= ids[:, :, place : place + starts] == newest[:, :, tf.newaxis]
        # [rows, starts], the n-grams' last tokens
        ends = tf.reshape(ids[:, :, self.size - 1 : self.size - 1 + starts], [-1, starts])
        rows = tf.broadcast_to(tf.range(shape[0] * shape[1])[:, tf.newaxis], tf.shape(ends))
        values = tf.where(tf.reshape(same, [-1, starts]), NONE, logits.dtype.max)
        flat = tf.reshape(logits, [-1, shape[2]])
        flat = tf.tensor_scatter_nd_min(flat, tf.stack([rows, ends], -1), values)
        return tf.reshape(flat, shape)


@dataclasses.dataclass(frozen=True)
class Prefix:
    """Outputs begin with `prefixes` (int32 [batch, length], padded with 0), whatever the other constraints.

    A last id of -1 means that the next token must begin a word.
    """

    # ids forbidden after the prefix; `BeamSearch.never` is then empty, because a prefix may contain these ids
    never: tuple[int, ...] = (0,)
    # for each id, 1 if it may follow a prefix that ends in -1: its text begins with a blank, or it is the end symbol
    word_starts: bytes = b""

    def apply(self, logits: tf.Tensor, unconstrained: tf.Tensor, state: BeamState, inputs: SearchInputs) -> tf.Tensor:
        logits = forbid(logits, self.never)
        prefixes = inputs.constraint_inputs["prefixes"]
        here = tf.range(tf.shape(prefixes)[1]) == state.position
        wanted = tf.reduce_sum(tf.where(here, prefixes, 0), 1)[:, tf.newaxis, tf.newaxis]  # 0: the prefix is complete
        forced = tf.where(tf.range(tf.shape(logits)[2]) == wanted, unconstrained, NONE)
        if self.word_starts:
            inside = tf.constant([not each for each in self.word_starts])
            logits = tf.where((wanted < 0) & inside, NONE, logits)
        return tf.where(wanted > 0, forced, logits)
