"""The state of a search between two positions: alive hypotheses, and finished ones with their scores."""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.layers.beam_ancestry import BeamAncestry

# Log-probability of a hypothesis that does not exist. Finite, because -inf turns into NaN in sums and products.
NONE = -1e9
# Every real hypothesis is above this, every non-existing one below.
EXISTS = NONE / 2


class SearchResult(NamedTuple):
    """The best hypotheses of every sentence, best first.

    A slot without a hypothesis (fewer possible outputs than beams) is last, with ids and length 0, and log-probability
    and score -1e9.
    """

    ids: Any  # int32 [batch, beam, max_length], 0 after the last token
    lengths: Any  # int32 [batch, beam], tokens including the end symbol when it was produced
    log_probs: Any  # float32 [batch, beam], sum of the tokens' log-probabilities (nats)
    scores: Any  # float32 [batch, beam], log_probs / length penalty + coverage penalty


class SearchInputs(NamedTuple):
    """What a search knows of its sentences. () is an absent part: a graph's signature takes no None."""

    limits: Any  # int32 [batch], largest output length in tokens including the end symbol; 0: an empty row
    source_mask: Any = ()  # bool [batch, source], True = a token; for the coverage penalty
    uniforms: Any = ()  # float32 [batch, beam, at least max_length] from [0, 1), for sampling
    constraint_inputs: Any = {}  # arrays [batch, ...] for the constraints of the search, by name


class BeamState(NamedTuple):
    """The state of a search between two positions."""

    position: tf.Tensor  # int32 [], index of the token to be chosen next
    ids: tf.Tensor  # int32 [batch, beam, max_length], tokens of the alive hypotheses, 0 from `position` on
    last: tf.Tensor  # int32 [batch, beam], the newest token of every alive hypothesis, 0 at the start
    log_probs: tf.Tensor  # float32 [batch, beam], of the alive hypotheses, best first; -1e9 where none exists
    ancestry: BeamAncestry  # of the alive hypotheses, at `position`
    coverage: Any  # float32 [batch, beam, source], attention that each source token received; () without a penalty
    finished: SearchResult  # the best finished hypotheses so far, group by group
    done: tf.Tensor  # bool [batch, groups], groups whose finished set is final
    decoder: Any  # the model's state, a nest of tensors [batch, ...]


def merge_finished(finished, new, ended):
    """Returns the best of a finished set and of those candidates that ended: SearchResult.

    Args:
      finished: SearchResult [batch, beam].
      new: SearchResult [batch, candidates].
      ended: bool [batch, candidates].
    """
    # Anything that did not end or does not exist ranks below even an empty slot, and so never enters.
    valid = ended & (new.log_probs > EXISTS)
    new = new._replace(scores=tf.where(valid, new.scores, 2 * NONE))
    # [batch, beam + candidates, ...]
    both = SearchResult(*(tf.concat(pair, 1) for pair in zip(finished, new, strict=True)))
    _, kept = tf.math.top_k(both.scores, finished.scores.shape[1])  # [batch, beam]
    return SearchResult(*(tf.gather(part, kept, batch_dims=1) for part in both))  # [batch, beam, ...]


def is_final(finished, wanted, alive_log_probs, limits, alpha):
    """Whether the `wanted` best finished hypotheses are at least as good as any alive one can become: bool [batch].

    Further tokens only lower a log-probability, the length penalty only grows and the coverage penalty is at most 0. So
    the upper bound of an alive hypothesis' score is that of reaching the length limit at no cost. A sentence without
    alive hypotheses, because all are at the limit, is final even if its finished set is not full.
    """
    best = tf.reduce_max(alive_log_probs, -1)  # [batch]
    upper_bound = tf.where(best > EXISTS, best / length_penalty(limits, alpha), NONE)  # [batch]
    return finished.scores[:, wanted - 1] >= upper_bound
