"""Beam search with a finished and an alive set of hypotheses per sentence; greedy, diverse and random ones, too.

The search is that of Wu et al. 2016, "Google's Neural Machine Translation System", section 7
(https://arxiv.org/abs/1609.08144), in the form that tensor2tensor gave it. It knows nothing of any model: a
function gives the logits of the next piece, and a nest of tensors is that function's memory.
"""

import dataclasses

import tensorflow as tf

from t2t_lite.decoding.search import constraints
from t2t_lite.decoding.search.beam_state import EXISTS, NONE, Loop, SearchResult, Sentences, cannot_improve, finish
from t2t_lite.decoding.search.candidates import Candidates, best_candidates, given_candidates, log_normaliser
from t2t_lite.decoding.search.coverage_penalty import coverage_penalty
from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.decoding.search.sampling import Sampling, draw
from t2t_lite.layers.beam_ancestry import next_lineage, no_lineage
from t2t_lite.parsing.tree_constraint import TreeSymbols, keep_well_formed


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """Finds the outputs with the highest log P(Y) / lp(Y) + cp(X; Y): length penalty and coverage penalty.

    At every position each sentence's alive hypotheses are extended by one piece, and the 2 * beam_size best
    extensions are kept: at most beam_size of them end, so at least beam_size go on. Those that end compete for the
    finished set; one that reaches its length limit without the end symbol is taken as finished as it is. A sentence
    stops as soon as no alive hypothesis can enter its finished set any more, and is not changed from then on, so its
    result does not depend on the other sentences. With one beam this is greedy search.

    With several groups (Vijayakumar et al. 2016, "Diverse Beam Search", arXiv 1610.02424) each has its own alive and
    finished set of beam_size / groups hypotheses. The groups choose one after the other, and each time an earlier group
    chose a piece in the same position, that piece counts `diversity_strength` less in the choice of what goes on;
    log-probabilities and scores are free of that.

    With `sampling` every hypothesis is a group for itself, and draws its pieces.

    A step is a function (ids, position, state, lineage) -> (logits, state, attention):
        ids: int32 [batch, beam], the last piece of every hypothesis (0, the start symbol, at position 0);
        position: int32 [];
        state: a nest of tensors [batch, ...]; the one returned has the structure, shapes and types of the one given;
        lineage: the hypotheses' `Lineage`, by which the function finds in its state what belongs to each of them;
        logits: [batch, beam, vocab] of any float type;
        attention: float32 [batch, beam, source], of which the coverage penalty is made; else it may be None.

    Args:
        vocab_size: pieces in the vocabulary.
        beam_size: hypotheses kept per sentence.
        alpha: exponent of the length penalty, at least 0; 0 compares plain log-probabilities.
        groups: a divisor of beam_size.
        diversity_strength: in nats.
        coverage_beta: strength of the coverage penalty; 0: none.
        no_repeat_ngram_size: no output has the same n-gram of this size twice; 0: it may.
        num_wanted: how many of the best hypotheses (of each group) are looked for; the others that are found by then
            may not be the best ones. 0: all.
        sampling: `Sampling`, or None to search; needs groups = beam_size.
        tree_symbols: what the pieces do in a tree, if no output may be anything but one; needs `leaf_counts`.
        never: pieces that no output has, unless its prefix has them: padding, which would not be scored.
        eos_id: the end symbol.
    """

    vocab_size: int
    beam_size: int
    alpha: float
    groups: int = 1
    diversity_strength: float = 0.0
    coverage_beta: float = 0.0
    no_repeat_ngram_size: int = 0
    num_wanted: int = 0
    sampling: Sampling | None = None
    tree_symbols: TreeSymbols | None = None
    never: tuple[int, ...] = (0,)
    eos_id: int = 1

    def __post_init__(self):
        if self.beam_size < 1 or self.vocab_size < 1:
            raise ValueError(f"beam_size and vocab_size must be at least 1, not {self.beam_size} and {self.vocab_size}")
        if self.beam_size % self.groups or (self.sampling and self.groups != self.beam_size):
            raise ValueError(f"{self.groups} groups do not fit beam_size {self.beam_size}")

    def start(self, sentences: Sentences, state, max_length) -> Loop:
        """The loop before the first piece: one empty hypothesis per sentence and group is alive, none is finished.

        Args:
            sentences: the sentences.
            state: what the first step gets.
            max_length: positions that there is room for, int or scalar tensor.
        """
        batch, beam = tf.shape(sentences.limits)[0], self.beam_size
        ids = tf.zeros([batch, beam, max_length], tf.int32)  # [batch, beam, max_length]
        zeros = tf.zeros([batch, beam], tf.int32)  # [batch, beam]
        nothing = tf.fill([batch, beam], NONE)  # [batch, beam]
        # All beams are equal at the start: only one may count, else every hypothesis would be found several times.
        first = tf.range(beam) % (beam // self.groups) == 0
        coverage = ()
        if self.coverage_beta:
            coverage = tf.zeros([batch, beam, tf.shape(sentences.source_mask)[1]])
        nobody = no_lineage(batch, beam, max_length)
        return Loop(
            position=tf.constant(0),
            ids=ids,
            last=zeros,
            log_probs=tf.where(first, 0.0, nothing),  # [batch, beam]
            lineage=next_lineage(nobody, nobody.parents, 0),
            coverage=coverage,
            finished=SearchResult(ids=ids, lengths=zeros, log_probs=nothing, scores=nothing),
            done=tf.repeat(sentences.limits[:, tf.newaxis] == 0, self.groups, axis=1),  # [batch, groups]
            state=tf.nest.map_structure(tf.convert_to_tensor, state),
        )

    def advance(self, step, loop: Loop, sentences: Sentences, until=0) -> Loop:
        """Goes on until there is no room for more pieces or at most `until` sentences are not done."""
        shapes = [tensor.shape for tensor in tf.nest.flatten(loop)]

        def goes_on(loop):
            undone = tf.reduce_sum(tf.cast(~tf.reduce_all(loop.done, 1), tf.int32))
            return (loop.position < tf.shape(loop.ids)[2]) & (undone > until)

        def body(loop):
            loop = self._next(step, loop, sentences)
            # With sizes known only at run time, shape inference loses what the loop needs to know.
            for tensor, shape in zip(tf.nest.flatten(loop), shapes, strict=True):
                tensor.set_shape(shape)
            return (loop,)

        return tf.while_loop(goes_on, body, (loop,))[0]

    def result(self, finished: SearchResult) -> SearchResult:
        """The finished hypotheses, best first; samples as they were drawn."""
        if self.groups == 1 or self.sampling:
            return finished
        _, order = tf.math.top_k(finished.scores, self.beam_size)
        return SearchResult(*(tf.gather(part, order, batch_dims=1) for part in finished))

    def _next(self, step, loop: Loop, sentences: Sentences) -> Loop:
        """Chooses the pieces of one position."""
        logits, state, attention = step(loop.last, loop.position, loop.state, loop.lineage)
        if not tf.TensorShape([None, self.beam_size, self.vocab_size]).is_compatible_with(logits.shape):
            raise ValueError(f"logits have shape {logits.shape}, not [batch, {self.beam_size}, {self.vocab_size}]")
        logits = tf.cast(logits, tf.float32)
        logits.set_shape([None, self.beam_size, self.vocab_size])
        normaliser = log_normaliser(logits)  # [batch, beam, 1]
        logits = self._constrain(logits, loop, sentences)
        coverage = loop.coverage + attention if self.coverage_beta else ()
        width = self.beam_size // self.groups
        alive, taken, finished, done = [], [], [], []
        for group in range(self.groups):
            beams = slice(group * width, (group + 1) * width)
            candidates = self._extend(
                logits[:, beams], normaliser[:, beams], loop, beams, sentences, tf.concat(taken, 1) if taken else None
            )
            length = loop.position + 1
            # [batch, candidates]; at its limit every hypothesis of a sentence ends
            ended = (candidates.pieces == self.eos_id) | (length >= sentences.limits)[:, tf.newaxis]
            new = self._scored(candidates, loop, coverage, sentences)
            before = SearchResult(*(part[:, beams] for part in loop.finished))
            finished.append(finish(before, new, ended & ~loop.done[:, group, tf.newaxis]))
            _, kept = tf.math.top_k(tf.where(ended, NONE, candidates.merits), width)  # [batch, width]
            chosen = Candidates(*(tf.gather(part, kept, batch_dims=1) for part in candidates))  # [batch, width]
            taken.append(tf.where(chosen.log_probs > EXISTS, chosen.pieces, -1))
            log_probs = tf.where(tf.gather(ended, kept, batch_dims=1), NONE, chosen.log_probs)  # [batch, width]
            alive.append(chosen._replace(log_probs=log_probs))
            wanted = min(self.num_wanted or width, width)
            final = cannot_improve(finished[-1], wanted, log_probs, sentences.limits, self.alpha)
            done.append((loop.done[:, group] | final)[:, tf.newaxis])
        log_probs, parents, pieces, _ = (tf.concat(parts, 1) for parts in zip(*alive))  # [batch, beam]
        return Loop(
            position=loop.position + 1,
            ids=_appended(loop, parents, pieces),
            last=pieces,
            log_probs=log_probs,
            lineage=next_lineage(loop.lineage, parents, loop.position + 1),
            coverage=tf.gather(coverage, parents, batch_dims=1) if self.coverage_beta else (),
            finished=SearchResult(*(tf.concat(parts, 1) for parts in zip(*finished))),
            done=tf.concat(done, 1),
            state=state,
        )

    def _constrain(self, free, loop, sentences):
        """The logits with those pieces out of reach that may not come next."""
        logits = free
        if not isinstance(sentences.min_lengths, tuple):
            logits = constraints.forbid_end(logits, self.eos_id, loop.position + 1 < sentences.min_lengths)
        if self.no_repeat_ngram_size:
            logits = constraints.forbid_repeats(logits, loop.ids, loop.position, self.no_repeat_ngram_size)
        if self.tree_symbols:
            about = (sentences.limits, sentences.leaf_counts, self.tree_symbols, self.eos_id)
            logits = keep_well_formed(logits, loop.ids, loop.position, *about)
        if not isinstance(sentences.prefixes, tuple):
            logits = constraints.forbid(logits, self.never)
            logits = constraints.force_prefix(logits, free, sentences.prefixes, loop.position)
        return logits

    def _extend(self, logits, normaliser, loop, beams, sentences, taken):
        """The extensions of one group, parents counted over all groups; `taken` is what earlier groups chose, or -1."""
        log_probs = loop.log_probs[:, beams]
        never = self.never if isinstance(sentences.prefixes, tuple) else ()  # a prefix may have anything
        if self.sampling:
            uniforms = tf.gather(sentences.uniforms[:, beams], loop.position, axis=2)  # [batch, 1]
            logits = constraints.forbid(logits, never)
            pieces = draw(logits[:, 0], uniforms[:, 0], self.sampling)[:, tf.newaxis]
            candidates = given_candidates(pieces, logits, normaliser, log_probs)
        elif taken is not None and self.diversity_strength:
            often = tf.reduce_sum(tf.one_hot(taken, self.vocab_size), 1)  # [batch, vocab]
            penalty = self.diversity_strength * often
            candidates = best_candidates(logits - penalty[:, tf.newaxis], normaliser, log_probs, never)
            # A piece that was out of reach stays there.
            lost = tf.where(candidates.log_probs > NONE, tf.gather(penalty, candidates.pieces, batch_dims=1), 0.0)
            candidates = candidates._replace(log_probs=candidates.log_probs + lost)
        else:
            candidates = best_candidates(logits, normaliser, log_probs, never)
        return candidates._replace(parents=candidates.parents + beams.start)

    def _scored(self, candidates, loop, coverage, sentences):
        """The candidates as if all of them ended here: SearchResult [batch, candidates]."""
        scores = candidates.log_probs / length_penalty(loop.position + 1, self.alpha)
        if self.coverage_beta:
            covered = tf.gather(coverage, candidates.parents, batch_dims=1)  # [batch, candidates, source]
            scores += coverage_penalty(covered, sentences.source_mask[:, tf.newaxis], self.coverage_beta)
        lengths = tf.fill(tf.shape(scores), loop.position + 1)  # [batch, candidates]
        ids = _appended(loop, candidates.parents, candidates.pieces)
        return SearchResult(ids, lengths, candidates.log_probs, scores)


def _appended(loop, parents, pieces):
    """The pieces of the parents' hypotheses with a new one each: int32 [batch, ..., max_length]."""
    here = tf.range(tf.shape(loop.ids)[2]) == loop.position  # [max_length]
    return tf.where(here, pieces[:, :, tf.newaxis], tf.gather(loop.ids, parents, batch_dims=1))


def beam_search(step, state, batch_size, vocab_size, *, beam_size, alpha, max_length, length_limits=None, **rules):
    """A whole search in one go.

    The shapes are static, so that XLA can compile the search, when batch_size and max_length are Python ints.

    Args:
        step, state: as `BeamSearch` takes them.
        batch_size: sentences, int or scalar tensor.
        vocab_size, beam_size, alpha: as `BeamSearch` takes them, and more `rules` of it or of `Sentences` by name.
        max_length: largest output length in pieces including the end symbol, at least 1, int or scalar tensor.
        length_limits: int32 [batch], the same for each sentence, taken into 1 ... max_length; None for no more limits.

    Returns:
        SearchResult, best hypothesis first.
    """
    limits = tf.fill([batch_size], max_length) if length_limits is None else length_limits
    limits = tf.clip_by_value(tf.cast(limits, tf.int32), 1, max_length)  # [batch]
    about_sentences = {name: rules.pop(name) for name in Sentences._fields if name in rules}
    sentences = Sentences(limits, **about_sentences)
    search = BeamSearch(vocab_size, beam_size, alpha, **rules)
    loop = search.advance(step, search.start(sentences, state, max_length), sentences)
    return search.result(loop.finished)
