"""Beam search with a finished and an alive set of hypotheses per sentence.

The search is that of Wu et al. 2016, "Google's Neural Machine Translation System", section 7
(https://arxiv.org/abs/1609.08144), in the form that tensor2tensor gave it. It knows nothing of any model: a
function gives the logits of the next piece, and a nest of tensors is that function's memory.

"rows" below is batch * beam: the beams of a sentence are neighbouring rows.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite.decoding.length_penalty import length_penalty

# Log-probability of a beam that does not exist. Finite, because -inf turns into NaN in sums and products.
_NONE = -1e9
# Every real hypothesis lies above this, every non-existing one below.
_EXISTS = _NONE / 2


class SearchResult(NamedTuple):
    """The best hypotheses of every sentence, best first.

    A slot for which no hypothesis exists (fewer possible outputs than beams) is last, with ids and length 0, and
    log-probability and score -1e9.
    """

    ids: tf.Tensor  # int32 [batch, beam, max_length], 0 after the last piece
    lengths: tf.Tensor  # int32 [batch, beam], pieces including the end symbol when it was produced
    log_probs: tf.Tensor  # float32 [batch, beam], sum of the pieces' log-probabilities (nats)
    scores: tf.Tensor  # float32 [batch, beam], log_probs / length penalty


class _Loop(NamedTuple):
    """What the search carries from one position to the next."""

    position: tf.Tensor  # int32 [], index of the piece to be chosen next
    ids: tf.Tensor  # int32 [batch, beam, max_length], pieces of the alive hypotheses, 0 from `position` on
    last: tf.Tensor  # int32 [batch, beam], the newest piece of every alive hypothesis, 0 at the start
    log_probs: tf.Tensor  # float32 [batch, beam], of the alive hypotheses, best first; -1e9 where none exists
    finished: SearchResult  # the best finished hypotheses so far
    done: tf.Tensor  # bool [batch], sentences whose finished set is final
    state: Any  # the model's memory, a nest of tensors [rows, ...]


class _Candidates(NamedTuple):
    """The best one-piece extensions of a sentence's alive hypotheses, best first."""

    log_probs: tf.Tensor  # float32 [batch, candidates], at least -1e9
    parents: tf.Tensor  # int32 [batch, candidates], the alive hypothesis that is extended, 0 <= parent < beam
    pieces: tf.Tensor  # int32 [batch, candidates], the new piece
    ids: tf.Tensor  # int32 [batch, candidates, max_length], all pieces with the new one


def beam_search(
    step, state, batch_size, vocab_size, *, beam_size, alpha, max_length, length_limits=None, eos_id=1
) -> SearchResult:
    """Finds the outputs with the highest log P(Y) / lp(Y), where lp is the length penalty.

    At every position each sentence's alive hypotheses are extended by one piece, and the 2 * beam_size best
    extensions are kept: at most beam_size of them end, so at least beam_size go on. Those that end compete for the
    finished set; one that reaches its length limit without the end symbol is taken as finished as it is. A sentence
    stops as soon as no alive hypothesis can enter its finished set any more, and is not changed from then on, so its
    result does not depend on the other sentences. With one beam this is greedy search.

    The shapes are static, so that XLA can compile the search, when batch_size and max_length are Python ints.

    Args:
        step: function (ids, position, state) -> (logits, state): ids int32 [rows], the last piece of every beam (0,
            the start symbol, at position 0); position int32 []; logits [rows, vocab_size] of any float type. The
            state returned has the structure, shapes and types of the one given.
        state: nest of tensors [rows, ...] that follow their hypotheses when beams are re-ranked. What is the same
            for all beams of a sentence is not put here, as it would be copied: `step` closes over it.
        batch_size: sentences, int or scalar tensor.
        vocab_size: pieces in the vocabulary, int.
        beam_size: hypotheses kept per sentence, int.
        alpha: exponent of the length penalty, at least 0; 0 compares plain log-probabilities.
        max_length: largest output length in pieces including the end symbol, at least 1, int or scalar tensor.
        length_limits: int32 [batch], the same for each sentence, taken into 1 ... max_length; None for no more limits.
        eos_id: the end symbol.

    Returns:
        SearchResult, best hypothesis first.
    """
    if beam_size < 1 or vocab_size < 1:
        raise ValueError(f"beam_size and vocab_size must be at least 1, not {beam_size} and {vocab_size}")
    limits = tf.fill([batch_size], max_length) if length_limits is None else length_limits
    limits = tf.clip_by_value(tf.cast(limits, tf.int32), 1, max_length)  # [batch]
    first = _start(state, batch_size, beam_size, max_length)
    shapes = [tensor.shape for tensor in tf.nest.flatten(first)]

    def advance(loop):
        logits, state = step(tf.reshape(loop.last, [-1]), loop.position, loop.state)  # [rows, vocab]
        candidates = _extend(logits, loop, vocab_size)
        length = loop.position + 1
        # [batch, candidates]; at its limit every hypothesis of a sentence ends
        ended = (candidates.pieces == eos_id) | (length >= limits)[:, tf.newaxis]
        alive_log_probs, kept = tf.math.top_k(tf.where(ended, _NONE, candidates.log_probs), beam_size)  # [batch, beam]
        finished = _finish(loop.finished, candidates, ended & ~loop.done[:, tf.newaxis], length, alpha)
        loop = _Loop(
            position=length,
            ids=tf.gather(candidates.ids, kept, batch_dims=1),  # [batch, beam, max_length]
            last=tf.gather(candidates.pieces, kept, batch_dims=1),  # [batch, beam]
            log_probs=alive_log_probs,
            finished=finished,
            done=loop.done | _cannot_improve(finished, alive_log_probs, limits, alpha),
            state=_reorder(state, tf.gather(candidates.parents, kept, batch_dims=1)),
        )
        # With a batch size known only at run time, shape inference loses what the loop needs to know.
        for tensor, shape in zip(tf.nest.flatten(loop), shapes, strict=True):
            tensor.set_shape(shape)
        return (loop,)

    (last,) = tf.while_loop(lambda loop: ~tf.reduce_all(loop.done), advance, (first,))
    return last.finished


def _start(state, batch_size, beam_size, max_length):
    """The loop before the first piece: one empty hypothesis per sentence is alive, none is finished."""
    ids = tf.zeros([batch_size, beam_size, max_length], tf.int32)  # [batch, beam, max_length]
    zeros = tf.zeros([batch_size, beam_size], tf.int32)  # [batch, beam]
    nothing = tf.fill([batch_size, beam_size], _NONE)  # [batch, beam]
    # All beams are equal at the start: only one may count, else every hypothesis would be found beam_size times.
    one = tf.where(tf.range(beam_size) == 0, 0.0, nothing)  # [batch, beam]
    return _Loop(
        position=tf.constant(0),
        ids=ids,
        last=zeros,
        log_probs=one,
        finished=SearchResult(ids=ids, lengths=zeros, log_probs=nothing, scores=nothing),
        done=tf.zeros([batch_size], tf.bool),  # [batch]
        state=tf.nest.map_structure(tf.convert_to_tensor, state),
    )


def _extend(logits, loop, vocab_size):
    """The best extensions of the alive hypotheses by one piece: _Candidates.

    The best pieces of each row are taken from the raw logits, and only these are normalised: the result is that of
    a top_k over all beam * vocabulary log-probabilities of a sentence, which need not be written to memory.
    """
    beam_size = loop.log_probs.shape[1]
    # One beam is greedy search: the best piece alone decides whether the hypothesis ends.
    wanted = 1 if beam_size == 1 else 2 * beam_size
    per_row = min(wanted, vocab_size)
    logits = tf.cast(tf.ensure_shape(logits, [None, vocab_size]), tf.float32)
    best, pieces = _largest(logits, per_row)  # [rows, per_row]
    # Not best[:, :1]: a slice of top_k's result makes XLA sort the whole rows instead (80 times slower on a CPU).
    highest = tf.reduce_max(best, -1, keepdims=True)  # [rows, 1]
    normaliser = highest + tf.math.log(tf.reduce_sum(tf.exp(logits - highest), -1, keepdims=True))  # [rows, 1]
    log_probs = tf.reshape(best - normaliser, [-1, beam_size, per_row])  # [batch, beam, per_row]
    log_probs = tf.maximum(log_probs + loop.log_probs[:, :, tf.newaxis], _NONE)
    log_probs = tf.reshape(log_probs, [-1, beam_size * per_row])  # [batch, beam * per_row]
    pieces = tf.reshape(pieces, [-1, beam_size * per_row])  # [batch, beam * per_row]
    log_probs, chosen = tf.math.top_k(log_probs, min(wanted, beam_size * per_row))  # [batch, candidates]
    parents = chosen // per_row
    pieces = tf.gather(pieces, chosen, batch_dims=1)  # [batch, candidates]
    ids = tf.gather(loop.ids, parents, batch_dims=1)  # [batch, candidates, max_length]
    here = tf.range(tf.shape(ids)[2]) == loop.position  # [max_length]
    return _Candidates(log_probs, parents, pieces, tf.where(here, pieces[:, :, tf.newaxis], ids))


def _largest(logits, count):
    """tf.math.top_k over a large vocabulary, equal but for the order of equal logits; logits are [rows, vocab].

    The `count` largest logits lie in the `count` blocks of the vocabulary with the largest maxima. Maxima are much
    cheaper than a top_k, which then has only the maxima and the chosen blocks to search: about a third of the time.
    """
    vocab_size = logits.shape[1]
    lengths = (n for n in range(128, 15, -1) if vocab_size % n == 0 and vocab_size // n >= 4 * count)
    length = next(lengths, None)
    if length is None:  # a small vocabulary, or one that cannot be cut into equal blocks
        return tf.math.top_k(logits, count)
    blocks = tf.reshape(logits, [-1, vocab_size // length, length])  # [rows, blocks, length]
    _, chosen = tf.math.top_k(tf.reduce_max(blocks, -1), count)  # [rows, count]
    inside = tf.reshape(tf.gather(blocks, chosen, batch_dims=1), [-1, count * length])  # [rows, count * length]
    best, places = tf.math.top_k(inside, count)  # [rows, count]
    pieces = tf.gather(chosen, places // length, batch_dims=1) * length + places % length  # [rows, count]
    return best, pieces


def _finish(finished, candidates, ended, length, alpha):
    """The best of the finished set and of the candidates that `ended` (bool [batch, candidates]): SearchResult."""
    valid = ended & (candidates.log_probs > _EXISTS)
    # Anything else ranks below even an empty slot of the finished set, and so never enters it.
    scores = tf.where(valid, candidates.log_probs / length_penalty(length, alpha), 2 * _NONE)
    lengths = tf.fill(tf.shape(scores), length)  # [batch, candidates]
    new = SearchResult(candidates.ids, lengths, candidates.log_probs, scores)
    # [batch, beam + candidates, ...]
    both = SearchResult(*(tf.concat(pair, 1) for pair in zip(finished, new, strict=True)))
    _, kept = tf.math.top_k(both.scores, finished.scores.shape[1])  # [batch, beam]
    return SearchResult(*(tf.gather(part, kept, batch_dims=1) for part in both))  # [batch, beam, ...]


def _cannot_improve(finished, alive_log_probs, limits, alpha):
    """Whether the worst finished hypothesis is at least as good as any alive one can become: bool [batch].

    A log-probability only falls with further pieces and the penalty only grows, so the best that an alive hypothesis
    can hope for is to reach the length limit at no cost. Beams that do not exist hope for nothing: a sentence without
    alive hypotheses, as all are at the limit, stops even though its finished set is not full.
    """
    best = tf.reduce_max(alive_log_probs, -1)  # [batch]
    hope = tf.where(best > _EXISTS, best / length_penalty(limits, alpha), _NONE)  # [batch]
    return tf.reduce_min(finished.scores, -1) >= hope


def _reorder(state, parents):
    """Gives every alive hypothesis the memory of the one it extends; parents is int32 [batch, beam]."""
    beam_size = parents.shape[1]
    if beam_size == 1:
        return state  # a single beam always extends itself, and copying the memory is what costs most
    starts = tf.range(tf.shape(parents)[0])[:, tf.newaxis] * beam_size  # [batch, 1]
    rows = tf.reshape(starts + parents, [-1])  # [rows]
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), state)
