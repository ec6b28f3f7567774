"""What a search carries from one position to the next: alive hypotheses, and finished ones with their scores."""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.layers.beam_ancestry import Lineage

# Log-probability of a hypothesis that does not exist. Finite, because -inf turns into NaN in sums and products.
NONE = -1e9
# Every real hypothesis lies above this, every non-existing one below.
EXISTS = NONE / 2


class SearchResult(NamedTuple):
    """The best hypotheses of every sentence, best first.

    A slot for which no hypothesis exists (fewer possible outputs than beams) is last, with ids and length 0, and
    log-probability and score -1e9.
    """

    ids: Any  # int32 [batch, beam, max_length], 0 after the last piece
    lengths: Any  # int32 [batch, beam], pieces including the end symbol when it was produced
    log_probs: Any  # float32 [batch, beam], sum of the pieces' log-probabilities (nats)
    scores: Any  # float32 [batch, beam], log_probs / length penalty + coverage penalty


class Sentences(NamedTuple):
    """What stays the same for each sentence through all positions; () stands for what is not wanted."""

    limits: Any  # int32 [batch], largest output length in pieces including the end symbol; 0: a row without a sentence
    min_lengths: Any = ()  # int32 [batch], smallest output length including the end symbol
    prefixes: Any = ()  # int32 [batch, length], what outputs begin with, padded with 0
    source_mask: Any = ()  # bool [batch, source], True = a piece, for the coverage penalty
    leaf_counts: Any = ()  # int32 [batch], words that a tree has to have, if only trees are wanted
    uniforms: Any = ()  # float32 [batch, beam, at least max_length] from [0, 1), what samples are drawn with


class Loop(NamedTuple):
    """The state of a search between two positions."""

    position: tf.Tensor  # int32 [], index of the piece to be chosen next
    ids: tf.Tensor  # int32 [batch, beam, max_length], pieces of the alive hypotheses, 0 from `position` on
    last: tf.Tensor  # int32 [batch, beam], the newest piece of every alive hypothesis, 0 at the start
    log_probs: tf.Tensor  # float32 [batch, beam], of the alive hypotheses, best first; -1e9 where none exists
    lineage: Lineage  # of the alive hypotheses, at `position`
    coverage: Any  # float32 [batch, beam, source], attention that each piece of the source had; () without a penalty
    finished: SearchResult  # the best finished hypotheses so far, group by group
    done: tf.Tensor  # bool [batch, groups], groups of hypotheses whose finished set is final
    state: Any  # the model's memory, a nest of tensors [batch, ...]


def finish(finished, new, ended):
    """The best of a finished set and of those candidates that ended: SearchResult.

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


def cannot_improve(finished, wanted, alive_log_probs, limits, alpha):
    """Whether the `wanted` best finished hypotheses are at least as good as any alive one can become: bool [batch].

    A log-probability only falls with further pieces, the length penalty only grows and the coverage penalty is 0 at
    best, so the most that an alive hypothesis can hope for is to reach the length limit at no cost. Beams that do not
    exist hope for nothing: a sentence without alive hypotheses, as all are at the limit, stops even though its finished
    set is not full.
    """
    best = tf.reduce_max(alive_log_probs, -1)  # [batch]
    hope = tf.where(best > EXISTS, best / length_penalty(limits, alpha), NONE)  # [batch]
    return finished.scores[:, wanted - 1] >= hope
