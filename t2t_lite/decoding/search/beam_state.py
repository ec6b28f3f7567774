"""The state of a search between two positions: alive hypotheses, their extensions, finished hypotheses and scores."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.layers.beam_ancestry import BeamAncestry

# The state of a model: a nest of tensors [batch, ...], which a search passes on from step to step.
DecoderState: TypeAlias = Any
# The encoder output for a batch of sources, also a nest of tensors [batch, ...].
EncodedSource: TypeAlias = Any

# Log-probability of a missing hypothesis. It is finite, because -inf turns into NaN in sums and products.
NONE = -1e9
# Log-probabilities of existing hypotheses are above this value, those of missing ones below.
EXISTS = NONE / 2


class SearchResult(NamedTuple):
    """The best hypotheses of every sentence, best first.

    If there are fewer possible outputs than beams, the last slots are empty: ids and length are 0, log-probability and
    score are -1e9.
    """

    ids: Array  # int32 [batch, beam, max_length], 0 after the last token
    lengths: Array  # int32 [batch, beam], number of tokens, including the end symbol if there is one
    log_probs: Array  # float32 [batch, beam], sum of the tokens' log-probabilities (nats)
    scores: Array  # float32 [batch, beam], log_probs / length penalty + coverage penalty


class SearchInputs(NamedTuple):
    """The inputs of a search, per sentence. () marks an absent field, because graph signatures do not allow None."""

    limits: Array  # int32 [batch], maximum output length in tokens including the end symbol; 0: a row of padding
    source_mask: Array = ()  # bool [batch, source], True = a token; for the coverage penalty
    uniforms: Array = ()  # float32 [batch, beam, at least max_length], random numbers in [0, 1), for sampling
    constraint_inputs: Mapping[str, Array] = {}  # arrays [batch, ...] for the constraints of the search, by name


class BeamState(NamedTuple):
    position: tf.Tensor  # int32 [], index of the next token
    ids: tf.Tensor  # int32 [batch, beam, max_length], tokens of the alive hypotheses, 0 from `position` on
    last: tf.Tensor  # int32 [batch, beam], the last token of every alive hypothesis, 0 at the start
    # float32 [batch, beam], of the alive hypotheses, best first (with phrases: by bank); -1e9 for an empty slot
    log_probs: tf.Tensor
    ancestry: BeamAncestry  # of the alive hypotheses, at `position`
    finished: SearchResult  # the best finished hypotheses so far, group by group
    done: tf.Tensor  # bool [batch, groups], groups whose finished set is final
    decoder_state: DecoderState
    features: Mapping[str, Any] = {}  # other data about the alive hypotheses, [batch, beam, ...], by name


class Candidates(NamedTuple):
    """One-token extensions of alive hypotheses, best first."""

    log_probs: tf.Tensor  # float32 [batch, candidates], at least -1e9
    parents: tf.Tensor  # int32 [batch, candidates], the extended alive hypothesis, 0 <= parent < beam
    tokens: tf.Tensor  # int32 [batch, candidates], the new token
    merits: tf.Tensor  # float32 [batch, candidates], log_probs minus the diversity penalty, for ranking


def merge_finished(finished: SearchResult, new: SearchResult, ended: tf.Tensor) -> SearchResult:
    """Returns the best of the finished hypotheses and the candidates that have ended: SearchResult [batch, beam].

    `new` is SearchResult [batch, candidates], `ended` is bool [batch, candidates].
    """
    # A candidate that has not ended or does not exist ranks below empty slots, so it never enters the set.
    valid = ended & (new.log_probs > EXISTS)
    new = new._replace(scores=tf.where(valid, new.scores, 2 * NONE))
    # [batch, beam + candidates, ...]
    both = SearchResult(*(tf.concat(pair, 1) for pair in zip(finished, new, strict=True)))
    _, kept = tf.math.top_k(both.scores, finished.scores.shape[1])  # [batch, beam]
    return SearchResult(*(tf.gather(part, kept, batch_dims=1) for part in both))  # [batch, beam, ...]


def forbid(logits: tf.Tensor, tokens: tuple[int, ...]) -> tf.Tensor:
    """Returns logits, float32 [batch, beam, vocab], with those of `tokens`, a tuple of ids, set to `NONE`."""
    forbidden = tf.reduce_any(tf.range(tf.shape(logits)[2])[:, tf.newaxis] == tf.constant(tokens, tf.int32), 1)
    return tf.where(forbidden, NONE, logits)
