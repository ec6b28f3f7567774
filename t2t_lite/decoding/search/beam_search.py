"""Beam search with sets of alive and finished hypotheses per sentence; also greedy, diverse and sampling search.

The search follows Wu et al. 2016, "Google's Neural Machine Translation System", section 7
(https://arxiv.org/abs/1609.08144), as implemented in tensor2tensor. It is independent of the model: a step function
returns the logits of the next token, and its state is a nest of tensors.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.decoding.search.beam_state import (
    EXISTS,
    NONE,
    BeamState,
    Candidates,
    DecoderState,
    SearchInputs,
    SearchResult,
    forbid,
    merge_finished,
)
from t2t_lite.decoding.search.constraints import Constraint, GuidingConstraint
from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.decoding.search.scorer_terms import Coverage, Feature, ScorerTerm
from t2t_lite.layers.beam_ancestry import BeamAncestry, compact_ancestry, grow_ancestry, initial_ancestry, next_ancestry

ALL_STEPS = 2**30  # more than any search needs
# (ids, position, decoder_state, ancestry) -> (logits, decoder_state, attention), see `BeamSearch`.
Step: TypeAlias = Callable[
    [tf.Tensor, tf.Tensor, DecoderState, BeamAncestry], tuple[tf.Tensor, DecoderState, tf.Tensor | None]
]


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """Finds the outputs Y of a source X with the highest score log P(Y) / lp(Y) + cp(X; Y).

    lp is the length penalty, with the exponent alpha, and cp the coverage penalty.

    At every position, each alive hypothesis is extended by one token, and the 2 * beam_size best extensions of a
    sentence are kept: at most beam_size of them end, so at least beam_size stay alive. Alive hypotheses have one
    length, and compete by log-probability. Hypotheses that end compete by score for `BeamState.finished`; a hypothesis
    that reaches its length limit without the end symbol counts as finished. A sentence is done when none of its alive
    hypotheses can still enter the finished set (`is_final`). The set then no longer changes, so the result does not
    depend on the other sentences in the batch. With one beam this is greedy search.

    The model's caches are never reordered: what a step writes stays in its beam, and `BeamState.ancestry` locates the
    entries of each hypothesis.

    A new rule about outputs is a `Constraint`; what it needs to know about hypotheses is a `Feature`.

    With several groups (Vijayakumar et al. 2016, "Diverse Beam Search", arXiv 1610.02424), each group has its own alive
    and finished sets of beam_size / groups hypotheses. The groups choose in turn, and a token's score is lowered by
    `diversity_strength` for each time that an earlier group chose the token at the same position. The returned
    log-probabilities and scores do not include this penalty.

    With `sampling`, every hypothesis is its own group, and its tokens are drawn at random.

    A step is a function (ids, position, decoder_state, ancestry) -> (logits, decoder_state, attention):
      ids: int32 [batch, beam], the last token of every hypothesis (0, the start symbol, at position 0);
      position: int32 [];
      decoder_state: a nest of tensors [batch, ...]; its structure, shapes and dtypes stay the same;
      ancestry: the `BeamAncestry` that locates the entries of each hypothesis in the state;
      logits: [batch, beam, vocab] of any float dtype;
      attention: float32 [batch, beam, source], for the coverage penalty; may be None without that penalty.
    """

    vocab_size: int
    beam_size: int  # hypotheses kept per sentence
    # exponent of the length penalty, at least 0; with 0, finished hypotheses are compared by log-probability
    alpha: Array | float  # a scalar tensor only inside a graph
    penalty: str = "wu"  # the kind of length penalty
    groups: int = 1  # a divisor of beam_size
    diversity_strength: float = 0.0  # penalty for a token that an earlier group chose, in nats
    coverage_beta: float = 0.0  # strength of the coverage penalty; 0: none
    # number of hypotheses in each group that must be the best ones; the search stops when they are found, and the
    # others may be suboptimal. 0: all
    num_wanted: int = 0
    sampling: "Sampling | None" = None  # None: search; requires groups = beam_size
    constraints: tuple[Constraint, ...] = ()  # rules about the next token, applied in this order
    terms: tuple[ScorerTerm, ...] = ()  # additional terms of the score
    min_length: int = 0  # minimum output length in tokens, without the end symbol
    # ids that outputs never contain, such as padding, which cannot be scored; with prefixes, see `Prefix.never`
    never: tuple[int, ...] = (0,)
    eos_id: int = 1  # the end symbol

    def __post_init__(self) -> None:
        if self.beam_size < 1 or self.vocab_size < 1:
            raise ValueError(f"beam_size and vocab_size must be at least 1, not {self.beam_size} and {self.vocab_size}")
        if self.beam_size % self.groups or (self.sampling and self.groups != self.beam_size):
            raise ValueError(f"{self.groups} groups do not fit beam_size {self.beam_size}")
        if self.guide and self.groups > 1:
            raise ValueError(f"a search with {self.guide.name} must have one group")
        guides = [rule.name for rule in self.constraints if isinstance(rule, GuidingConstraint)]
        if len(guides) > 1:
            raise ValueError(f"one constraint can guide a search, not {' and '.join(guides)}")
        names = [rule.name for rule in self.constraints if isinstance(rule, Feature)]
        if len({*names, "coverage"}) <= len(names):
            raise ValueError(f"constraints keep data as {', '.join(names)}; each needs a name of its own, not coverage")

    @property
    def guide(self) -> GuidingConstraint | None:
        return next((rule for rule in self.constraints if isinstance(rule, GuidingConstraint)), None)

    @property
    def features(self) -> dict[str, Feature]:
        """What the search stores about hypotheses besides their tokens, by name in `BeamState.features`."""
        features: list[Feature] = [Coverage(self.coverage_beta)] if self.coverage_beta else []
        features += [rule for rule in self.constraints if isinstance(rule, Feature)]
        return {feature.name: feature for feature in features}

    def start(self, inputs: SearchInputs, decoder_state: DecoderState, max_length: int | tf.Tensor) -> BeamState:
        """Returns the state before the first token: one empty alive hypothesis per sentence and group, none finished.

        `decoder_state` is the model's state before the first step; `max_length` is the number of positions to allocate.
        """
        batch, beam = tf.shape(inputs.limits)[0], self.beam_size
        ids = tf.zeros([batch, beam, max_length], tf.int32)  # [batch, beam, max_length]
        zeros = tf.zeros([batch, beam], tf.int32)  # [batch, beam]
        nothing = tf.fill([batch, beam], NONE)  # [batch, beam]
        # All beams are equal at the start, so only one per group is alive; otherwise every hypothesis would be found
        # several times.
        first = tf.range(beam) % (beam // self.groups) == 0
        initial = initial_ancestry(batch, beam, max_length)
        return BeamState(
            position=tf.constant(0),
            ids=ids,
            last=zeros,
            log_probs=tf.where(first, 0.0, nothing),  # [batch, beam]
            ancestry=next_ancestry(initial, initial.parents, 0),
            finished=SearchResult(ids=ids, lengths=zeros, log_probs=nothing, scores=nothing),
            done=tf.repeat(inputs.limits[:, tf.newaxis] == 0, self.groups, axis=1),  # [batch, groups]
            decoder_state=tf.nest.map_structure(tf.convert_to_tensor, decoder_state),
            features={name: feature.start(inputs, beam) for name, feature in self.features.items()},
        )

    def advance(
        self,
        step: Step,
        state: BeamState,
        inputs: SearchInputs,
        until: int | tf.Tensor = 0,
        steps: int | tf.Tensor = ALL_STEPS,
    ) -> BeamState:
        """Runs at most `steps` steps, until all positions are used or at most `until` sentences are unfinished."""
        shapes = [tensor.shape for tensor in tf.nest.flatten(state)]
        end = tf.minimum(state.position + steps, tf.shape(state.ids)[2])

        def has_unfinished(state: BeamState) -> tf.Tensor:
            unfinished = tf.reduce_sum(tf.cast(tf.logical_not(tf.reduce_all(state.done, 1)), tf.int32))
            return (state.position < end) & (unfinished > until)

        def body(state: BeamState) -> tuple[BeamState]:
            state = self._next(step, state, inputs)
            # If sizes are known only at run time, shape inference loses static dimensions that the state needs.
            for tensor, shape in zip(tf.nest.flatten(state), shapes, strict=True):
                tensor.set_shape(shape)
            return (state,)

        return tf.while_loop(has_unfinished, body, (state,))[0]

    def grown(
        self,
        state: BeamState,
        capacity: int | tf.Tensor,
        grow: Callable[[DecoderState], DecoderState],
        kept: tf.Tensor | None = None,
    ) -> BeamState:
        """Returns a state with room for `capacity` positions, and only the cache entries `kept`; None: all.

        `kept` is int32 [batch, entries], see `compact_ancestry`. `grow` does this to the model's state.
        """
        more = [[0, 0], [0, 0], [0, capacity - tf.shape(state.ids)[2]]]
        if kept is None:
            ancestry = grow_ancestry(state.ancestry, state.position, capacity)
        else:
            ancestry = compact_ancestry(state.ancestry, state.position, kept, capacity)
        return state._replace(
            ids=tf.pad(state.ids, more),
            ancestry=ancestry,
            finished=state.finished._replace(ids=tf.pad(state.finished.ids, more)),
            decoder_state=grow(state.decoder_state),
        )

    def result(self, finished: SearchResult) -> SearchResult:
        """Returns the finished hypotheses, best first; samples keep their drawing order."""
        if self.groups == 1 or self.sampling:
            return finished
        _, order = tf.math.top_k(finished.scores, self.beam_size)
        return SearchResult(*(tf.gather(part, order, batch_dims=1) for part in finished))

    def _next(self, step: Step, state: BeamState, inputs: SearchInputs) -> BeamState:
        logits, decoder_state, attention = step(state.last, state.position, state.decoder_state, state.ancestry)
        if not tf.TensorShape([None, self.beam_size, self.vocab_size]).is_compatible_with(logits.shape):
            raise ValueError(f"logits have shape {logits.shape}, not [batch, {self.beam_size}, {self.vocab_size}]")
        logits = tf.cast(logits, tf.float32)
        logits.set_shape([None, self.beam_size, self.vocab_size])
        normalizer = log_normalizer(logits)  # [batch, beam, 1], of the model: constraints do not raise probabilities

        unconstrained = logits
        if self.min_length:  # only the first steps need this pass over all logits
            is_short = state.position < self.min_length
            logits = tf.cond(is_short, lambda: forbid(unconstrained, (self.eos_id,)), lambda: unconstrained)
        for constraint in self.constraints:
            logits = constraint.apply(logits, unconstrained, state, inputs)

        groups: list[_Group] = []
        length, width = state.position + 1, self.beam_size // self.groups
        guide, features = self.guide, self.features
        for start in range(0, self.beam_size, width):
            beams = slice(start, start + width)
            taken = tf.concat([earlier.taken for earlier in groups], 1) if groups else None
            candidates = self._extend(logits[:, beams], normalizer[:, beams], state, beams, inputs, taken)
            extended = {
                name: feature.extended(state, candidates, attention, inputs) for name, feature in features.items()
            }

            # Those that ended compete for the finished set. At its length limit, a sentence's hypotheses all end.
            ended = (candidates.tokens == self.eos_id) | (length >= inputs.limits)[:, tf.newaxis]  # [batch, candidates]
            # The scores are as if all of them ended here.
            scores = candidates.log_probs / length_penalty(length, self.alpha, self.penalty)
            for name, feature in features.items():
                scores += tf.minimum(feature.score(extended[name], inputs), 0.0)  # see `is_final`
            ids, lengths = _appended(state, candidates.parents, candidates.tokens), tf.fill(tf.shape(scores), length)
            for each in self.terms:
                scores += tf.minimum(each.term(ids, lengths, inputs), 0.0)
            finished = SearchResult(*(part[:, beams] for part in state.finished))
            new = SearchResult(ids, lengths, candidates.log_probs, scores)
            done = state.done[:, len(groups), tf.newaxis]  # [batch, 1]
            finished = merge_finished(finished, new, ended & tf.logical_not(done))

            # The best of the others stay alive. If there are too few, those that ended leave empty slots.
            merits = tf.where(ended, NONE, candidates.merits)
            if guide:
                kept = guide.kept(merits, extended[guide.name], inputs, width)  # [batch, width]
            else:
                kept = tf.math.top_k(merits, width)[1]
            of_kept = functools.partial(tf.gather, indices=kept, batch_dims=1)
            chosen, its_features, has_ended = tf.nest.map_structure(of_kept, (candidates, extended, ended))
            log_probs = tf.where(has_ended, NONE, chosen.log_probs)  # [batch, width]

            # The sentence is done when none of them can still enter the finished set.
            wanted = min(self.num_wanted or width, width)
            final = is_final(finished, wanted, log_probs, length_penalty(inputs.limits, self.alpha, self.penalty))
            groups.append(
                _Group(
                    alive=chosen._replace(log_probs=log_probs),
                    taken=tf.where(chosen.log_probs > EXISTS, chosen.tokens, -1),
                    features=its_features,
                    finished=finished,
                    done=done | final[:, tf.newaxis],
                )
            )

        # The groups side by side, [batch, beam].
        whole = tf.nest.map_structure(lambda *parts: tf.concat(parts, 1), *groups)
        alive = whole.alive
        return BeamState(
            position=length,
            ids=_appended(state, alive.parents, alive.tokens),
            last=alive.tokens,
            log_probs=alive.log_probs,
            ancestry=next_ancestry(state.ancestry, alive.parents, length),
            finished=whole.finished,
            done=whole.done,
            decoder_state=decoder_state,
            features=whole.features,
        )

    def _extend(
        self,
        logits: tf.Tensor,
        normalizer: tf.Tensor,
        state: BeamState,
        beams: slice,
        inputs: SearchInputs,
        taken: tf.Tensor | None,
    ) -> Candidates:
        """Returns the extensions of one group; their parents are indices into all beams.

        `taken` is int32 [batch, n]: the tokens that earlier groups chose, -1 for none; None for the first group.
        """
        log_probs, penalty = state.log_probs[:, beams], None
        if taken is not None and self.diversity_strength:
            penalty = self.diversity_strength * tf.reduce_sum(tf.one_hot(taken, self.vocab_size), 1)  # [batch, vocab]
        if self.sampling:
            uniforms = tf.gather(inputs.uniforms[:, beams], state.position, axis=2)  # [batch, 1]
            candidates = self.sampling.candidates(forbid(logits, self.never), normalizer, log_probs, uniforms)
        else:
            candidates = best_candidates(logits, normalizer, log_probs, self.never, penalty)
        if self.guide:
            allowed = forbid(logits, self.never)
            proposed = self.guide.proposals(allowed, state, inputs)
            candidates = with_proposals(candidates, proposed, allowed, normalizer, log_probs)
        return candidates._replace(parents=candidates.parents + beams.start)


class _Group(NamedTuple):
    """One group after a step."""

    alive: Candidates  # [batch, width]; those that have ended are empty slots
    taken: tf.Tensor  # int32 [batch, width], the tokens that it chose, -1 for none
    features: dict[str, Any]  # of the alive hypotheses, see `BeamState`
    finished: SearchResult  # [batch, width]
    done: tf.Tensor  # bool [batch, 1]


def static_size(tensor: Array, axis: int) -> int:
    """Returns the size of a dimension. Raises ValueError if it is known only when the graph runs."""
    size = tensor.shape[axis]
    if size is None:
        raise ValueError(f"dimension {axis} of a tensor of shape {tensor.shape} must be known when the graph is built")
    return size


def log_normalizer(logits: tf.Tensor) -> tf.Tensor:
    """Returns log(sum(exp(logits))) over the last axis, which is kept with size 1."""
    highest = tf.reduce_max(logits, -1, keepdims=True)
    return highest + tf.math.log(tf.reduce_sum(tf.exp(logits - highest), -1, keepdims=True))


def best_candidates(
    logits: tf.Tensor,
    normalizer: tf.Tensor,
    log_probs: tf.Tensor,
    never: Sequence[int] = (),
    penalty: tf.Tensor | None = None,
) -> Candidates:
    """Returns the extensions with the highest merits: log-probabilities minus the `penalty`.

    The best tokens of each hypothesis are selected from the raw logits, and only these are normalized. The result
    equals top_k over all beam * vocabulary merits of a sentence, which are never written to memory. It has 2 * beam
    candidates: at most beam of them end, so at least beam stay alive. With one beam there is one candidate, because in
    greedy search the best token alone decides whether the hypothesis ends.

    Args:
      logits: float32 [batch, beam, vocab].
      normalizer: float32 [batch, beam, 1], from `log_normalizer`.
      log_probs: float32 [batch, beam], of the alive hypotheses.
      never: token ids to exclude. They are masked after the selection, which is cheaper than a pass over all logits.
      penalty: float32 [batch, vocab], lowers the merits of tokens but not their log-probabilities; None: no penalty.
    """
    beam_size, vocab_size = static_size(logits, 1), static_size(logits, 2)
    wanted = 1 if beam_size == 1 else 2 * beam_size
    per_row = min(wanted + len(never), vocab_size)
    if penalty is not None:
        logits -= penalty[:, tf.newaxis]
    best, tokens = blockwise_top_k(tf.reshape(logits, [-1, vocab_size]), per_row)  # [rows, per_row]
    for token in never:
        best = tf.where(tokens == token, NONE, best)
    extended = tf.reshape(best, [-1, beam_size, per_row]) - normalizer + log_probs[:, :, tf.newaxis]
    extended = tf.reshape(tf.maximum(extended, NONE), [-1, beam_size * per_row])  # [batch, beam * per_row]
    extended, chosen = tf.math.top_k(extended, min(wanted, beam_size * per_row))  # [batch, candidates]
    tokens = tf.gather(tf.reshape(tokens, [-1, beam_size * per_row]), chosen, batch_dims=1)  # [batch, candidates]
    unlowered = extended
    if penalty is not None:
        # Restores the log-probabilities, except those of forbidden tokens.
        unlowered += tf.where(extended > NONE, tf.gather(penalty, tokens, batch_dims=1), 0.0)
    return Candidates(unlowered, chosen // per_row, tokens, extended)


def blockwise_top_k(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns tf.math.top_k of logits [rows, vocab], up to the order of equal logits; faster for a large vocabulary.

    The `count` largest logits lie in the `count` blocks of the vocabulary with the largest maxima. Maxima are much
    cheaper than top_k, which then searches only the maxima and the chosen blocks, in a third of the time or less.
    Adjacent logits belong to different blocks, so that the maxima of many blocks are computed at once.
    """
    vocab_size = static_size(logits, 1)
    best_length = int((vocab_size / count) ** 0.5)
    near = [n for n in range(best_length // 2, 2 * best_length) if n > 1 and vocab_size % n == 0]
    if vocab_size < 16 * count or not near:  # a small vocabulary, or one that equal blocks cannot divide
        return tf.math.top_k(logits, count)
    length = min(near, key=lambda n: abs(n - best_length))
    number = vocab_size // length
    blocks = tf.reshape(logits, [-1, length, number])  # [rows, length, blocks]
    _, chosen = tf.math.top_k(tf.reduce_max(blocks, 1), count)  # [rows, count]
    inside = tf.gather(tf.transpose(blocks, [0, 2, 1]), chosen, batch_dims=1)  # [rows, count, length]
    best, places = tf.math.top_k(tf.reshape(inside, [-1, count * length]), count)  # [rows, count]
    tokens = places % length * number + tf.gather(chosen, places // length, batch_dims=1)  # [rows, count]
    return best, tokens


def with_proposals(
    candidates: Candidates, proposed: tf.Tensor, logits: tf.Tensor, normalizer: tf.Tensor, log_probs: tf.Tensor
) -> Candidates:
    """Returns the candidates and the extensions by the tokens `proposed`, int32 [batch, beam, n], 0 for no token.

    See `best_candidates` for the others. Forbidden tokens have the log-probability `NONE`, in the logits as well.
    """
    batch, beam, count = tf.shape(proposed)[0], proposed.shape[1], tf.shape(proposed)[2]
    parents = tf.broadcast_to(tf.range(beam)[:, tf.newaxis], tf.shape(proposed))
    extended = tf.gather(logits, proposed, batch_dims=2) - normalizer + log_probs[:, :, tf.newaxis]
    # A token that is proposed twice, or is already a candidate, counts once.
    is_earlier = tf.range(count) < tf.range(count)[:, tf.newaxis]
    again = tf.reduce_any((proposed[:, :, :, tf.newaxis] == proposed[:, :, tf.newaxis]) & is_earlier, -1)
    is_theirs = candidates.parents[:, tf.newaxis] == tf.range(beam)[:, tf.newaxis]  # [batch, beam, candidates]
    same = proposed[:, :, :, tf.newaxis] == candidates.tokens[:, tf.newaxis, tf.newaxis]
    again |= tf.reduce_any(same & is_theirs[:, :, tf.newaxis], -1)
    extended = tf.where(again | (proposed == 0), NONE, tf.maximum(extended, NONE))
    log_probs, parents, tokens = (tf.reshape(part, [batch, -1]) for part in (extended, parents, proposed))
    more = Candidates(log_probs, parents, tokens, log_probs)
    return Candidates(*(tf.concat(parts, 1) for parts in zip(candidates, more)))


class Sampling(NamedTuple):
    temperature: float  # divides the logits: above 1 the distribution is flatter, below 1 sharper
    top_k: int = 0  # sample from the top_k most probable tokens (Fan et al. 2018); 0: from all
    top_p: float = 1.0  # sample from the smallest set of tokens with total probability top_p (Holtzman et al. 2020)

    def candidates(
        self, logits: tf.Tensor, normalizer: tf.Tensor, log_probs: tf.Tensor, uniforms: tf.Tensor
    ) -> Candidates:
        """Extends the only hypothesis of each sentence by a randomly drawn token, see `best_candidates`.

        `uniforms` is float32 [batch, 1], random numbers in [0, 1).
        """
        tokens = sample_tokens(logits[:, 0], uniforms[:, 0], self)[:, tf.newaxis]
        chosen = tf.gather(logits, tokens[:, :, tf.newaxis], batch_dims=2) - normalizer  # [batch, 1, 1]
        extended = tf.maximum(chosen[:, :, 0] + log_probs, NONE)
        return Candidates(extended, tf.zeros_like(tokens), tokens, extended)


def sample_tokens(logits: tf.Tensor, uniforms: tf.Tensor, sampling: Sampling) -> tf.Tensor:
    """Draws one token, int32 [rows], from the distribution of each row of logits, float32 [rows, vocab].

    `uniforms` are random numbers, float32 [rows] in [0, 1). A sample depends only on these and on the logits.
    """
    logits = logits / sampling.temperature
    size = static_size(logits, 1)
    tokens = None
    if sampling.top_k or sampling.top_p < 1.0:
        logits, tokens = tf.math.top_k(logits, min(sampling.top_k or size, size))
    probabilities = tf.nn.softmax(logits)
    up_to_here = tf.cumsum(probabilities, axis=1)
    if sampling.top_p < 1.0:
        # Keep the most probable tokens, up to the one at which the cumulative probability reaches top_p.
        probabilities = tf.where(up_to_here - probabilities < sampling.top_p, probabilities, 0.0)
        up_to_here = tf.cumsum(probabilities, axis=1)
    drawn = uniforms[:, tf.newaxis] * up_to_here[:, -1:]
    places = tf.reduce_sum(tf.cast(up_to_here <= drawn, tf.int32), 1)
    # Rounding may select a place beyond the last token with non-zero probability.
    last = tf.reduce_max(tf.where(probabilities > 0, tf.range(tf.shape(probabilities)[1]), 0), 1)
    places = tf.minimum(places, last)
    return places if tokens is None else tf.gather(tokens, places, batch_dims=1)


def _appended(state: BeamState, parents: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """Returns the parents' tokens with one new token appended to each: int32 [batch, ..., max_length]."""
    here = tf.range(tf.shape(state.ids)[2]) == state.position  # [max_length]
    return tf.where(here, tokens[:, :, tf.newaxis], tf.gather(state.ids, parents, batch_dims=1))


def is_final(finished: SearchResult, wanted: int, alive_log_probs: tf.Tensor, largest_penalty: tf.Tensor) -> tf.Tensor:
    """Returns whether no alive hypothesis can beat the `wanted` best finished ones: bool [batch].

    Each token only lowers a log-probability, which is at most 0, the length penalty only grows, and all other score
    terms are at most 0. Therefore an alive hypothesis' score is at most its current log-probability divided by
    `largest_penalty`, float32 [batch], the penalty at the length limit. A sentence without alive hypotheses (all have
    reached the limit) is final even if its finished set is not full.
    """
    best = tf.reduce_max(alive_log_probs, -1)  # [batch]
    upper_bound = tf.where(best > EXISTS, best / largest_penalty, NONE)  # [batch]
    return finished.scores[:, wanted - 1] >= upper_bound
