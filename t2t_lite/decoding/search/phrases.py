"""Phrases that an output must contain (lexical constraints), and how much of these each hypothesis contains.

The phrases of a sentence are concatenated into arrays of "places", one for each token. A hypothesis is at a place if
its last tokens are those of the phrase up to there (the Shift-And algorithm of Baeza-Yates and Gonnet 1992). A phrase
that the hypothesis has begun therefore continues with its next token or is lost, and may begin again at once.

A phrase counts only as whole words: it begins and ends at word boundaries. Therefore its last token counts once the
next token, or the end of the output, does not continue the word. A phrase that is listed twice must occur twice: the
second one begins only after the first one.

The beam is divided by the number of phrase tokens that hypotheses contain (dynamic beam allocation). Hypotheses with
the same number form a bank. Each bank has the same share of the beam; other banks receive what it cannot use. So
there are always hypotheses that continue a phrase, and others that wait for a better position.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.decoding.search.beam_state import EXISTS, NONE, BeamState, Candidates, SearchInputs
from t2t_lite.decoding.search.constraints import GuidingConstraint

# If an output ends at its length limit without a phrase, each token of the phrase lowers its score by this.
# It exceeds all score differences, so such outputs rank below all others.
MISSING = 1e5


class PhraseState(NamedTuple):
    at: Array  # bool [batch, beam, places], whether the last tokens are those of the phrase up to this place
    complete: Array  # bool [batch, beam, places], at a phrase's last place: whether its last word has ended


class Places(NamedTuple):
    """The places of all phrases, int32 [batch, places], from `constraint_inputs`."""

    tokens: Array  # the token, 0 for padding
    numbers: Array  # the number of the token within its phrase, from 1
    ends: Array  # the index of the phrase's last place
    after: Array  # 1 + the last place of an equal phrase that comes first, 0 for none

    @property
    def is_last(self) -> tf.Tensor:
        """Whether a phrase ends here: bool [batch, places]."""
        return (self.ends == tf.range(tf.shape(self.ends)[1])) & (self.numbers > 0)


@dataclasses.dataclass(frozen=True)
class Phrases(GuidingConstraint):
    """Outputs contain all phrases of their sentence before they end.

    Source: Post and Vilar 2018, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural Machine
    Translation" (https://arxiv.org/abs/1804.06609), with whole words and overlapping phrases added.
    """

    name: ClassVar[str] = "phrases"
    # for each token, whether its text begins with a letter or digit and thus continues a word
    begins_in_word: tuple[bool, ...]
    ends_in_word: tuple[bool, ...]  # for each token, whether its text ends with a letter or digit
    # for each token, whether no output may begin with it, for example because of a leading blank; (): none
    never_first: tuple[bool, ...] = ()
    eos_id: int = 1  # the end symbol

    def start(self, inputs: SearchInputs, beam_size: int) -> PhraseState:
        tokens = _places(inputs).tokens
        nothing = tf.zeros([tf.shape(tokens)[0], beam_size, tf.shape(tokens)[1]], tf.bool)
        return PhraseState(nothing, nothing)

    def apply(self, logits: tf.Tensor, unconstrained: tf.Tensor, state: BeamState, inputs: SearchInputs) -> tf.Tensor:
        """Forbids the end symbol for hypotheses that lack phrases. See `Constraint`."""
        may_end = self.missing(state.features[self.name], inputs) == 0  # [batch, beam]
        end = tf.range(tf.shape(logits)[2]) == self.eos_id
        return tf.where(end & tf.logical_not(may_end)[:, :, tf.newaxis], NONE, logits)

    def proposals(self, logits: tf.Tensor, state: BeamState, inputs: SearchInputs) -> tf.Tensor:
        """See `GuidingConstraint`. Proposes each hypothesis' best token and the next tokens of its phrases.

        If a phrase is complete except for the end of its last word, also the best token that ends the word.
        """
        places, phrases = _places(inputs), state.features[self.name]
        joins = self._joins(state.last[:, :, tf.newaxis], places.tokens[:, tf.newaxis])  # [batch, beam, places]
        may_begin = (places.numbers == 1)[:, tf.newaxis] & tf.logical_not(joins)
        if self.never_first:
            first = tf.gather(tf.constant(self.never_first), places.tokens) & (state.position == 0)
            may_begin &= tf.logical_not(first)[:, tf.newaxis]
        contained = self._contained(phrases, places)
        may_begin &= _is_turn(contained, places)
        may_follow = (places.numbers > 1)[:, tf.newaxis] & _shifted(phrases.at)
        is_next = (may_begin | may_follow) & tf.logical_not(contained)
        following = tf.where(is_next, places.tokens[:, tf.newaxis], 0)
        best = tf.argmax(logits, -1, output_type=tf.int32)  # [batch, beam]
        ends_word = tf.where(tf.constant(self.begins_in_word), NONE, logits)
        is_ending = tf.reduce_any(phrases.at & places.is_last[:, tf.newaxis], -1)  # [batch, beam]
        ending = tf.where(is_ending, tf.argmax(ends_word, -1, output_type=tf.int32), 0)
        has_phrases = tf.reduce_any(places.numbers > 0, -1)[:, tf.newaxis]
        others = tf.where(has_phrases[:, :, tf.newaxis], tf.stack([best, ending], -1), 0)
        return tf.concat([others, following], -1)

    def extended(self, state: BeamState, candidates: Candidates, attention: Array, inputs: SearchInputs) -> PhraseState:
        places = _places(inputs)
        at, complete = (tf.gather(part, candidates.parents, batch_dims=1) for part in state.features[self.name])
        tokens = candidates.tokens[:, :, tf.newaxis]
        last = tf.gather(state.last, candidates.parents, batch_dims=1)[:, :, tf.newaxis]
        apart = tf.logical_not(self._joins(last, tokens))  # [batch, candidates, 1], whether a word may end between them
        complete |= at & places.is_last[:, tf.newaxis] & apart
        may_begin = apart & _is_turn(self._contained(PhraseState(at, complete), places), places)
        before = tf.where((places.numbers == 1)[:, tf.newaxis], may_begin, _shifted(at))
        is_here = (tokens == places.tokens[:, tf.newaxis]) & (places.numbers > 0)[:, tf.newaxis]
        return PhraseState(before & is_here, complete)

    def score(self, extended: PhraseState, inputs: SearchInputs) -> tf.Tensor:
        """See `Feature`. Hypotheses that lack phrases can end only at the length limit."""
        return -MISSING * tf.cast(self.missing(extended, inputs), tf.float32)

    def kept(self, merits: tf.Tensor, extended: PhraseState, inputs: SearchInputs, width: int) -> tf.Tensor:
        """See `GuidingConstraint`. A hypothesis' bank is the number of phrase tokens in it.

        Counts all tokens of complete phrases, and the tokens so far of the longest phrase that has begun.
        """
        places = _places(inputs)
        contained = self._contained(extended, places)
        whole = tf.reduce_sum(tf.cast(contained & (places.numbers > 0)[:, tf.newaxis], tf.int32), -1)
        begun = tf.where(extended.at & tf.logical_not(contained), places.numbers[:, tf.newaxis], 0)
        banks = whole + tf.reduce_max(begun, -1)  # [batch, candidates]
        return allocated(merits, banks, tf.shape(extended.at)[2] + 1, width)

    def missing(self, phrases: PhraseState, inputs: SearchInputs) -> tf.Tensor:
        """Returns the number of tokens in the phrases that outputs lack if they end here: int32 [batch, hypotheses]."""
        places = _places(inputs)
        lacks = tf.logical_not(self._contained(phrases, places)) & (places.numbers > 0)[:, tf.newaxis]
        return tf.reduce_sum(tf.cast(lacks, tf.int32), -1)

    def _contained(self, phrases: PhraseState, places: Places) -> tf.Tensor:
        """Returns, for each place, whether a hypothesis that ends here contains its phrase: bool [batch, n, places]."""
        ends = (phrases.at | phrases.complete) & places.is_last[:, tf.newaxis]
        return tf.gather(ends, tf.broadcast_to(places.ends[:, tf.newaxis], tf.shape(ends)), batch_dims=2)

    def _joins(self, last: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant(self.ends_in_word), last) & tf.gather(tf.constant(self.begins_in_word), tokens)


def _places(inputs: SearchInputs) -> Places:
    return Places(*(inputs.constraint_inputs[f"phrase_{name}"] for name in Places._fields))


def phrase_places(phrases: list[list[int]]) -> Places:
    ends, after, end = [], [], -1
    last: dict[tuple[int, ...], int] = {}
    for phrase in phrases:
        end += len(phrase)
        ends += [end] * len(phrase)
        after += [last.get(tuple(phrase), -1) + 1] * len(phrase)
        last[tuple(phrase)] = end
    numbers = [number for phrase in phrases for number in range(1, len(phrase) + 1)]
    return Places([token for phrase in phrases for token in phrase], numbers, ends, after)


def _is_turn(contained: tf.Tensor, places: Places) -> tf.Tensor:
    """Returns whether the phrase of each place may begin: an equal one before it is contained. As `contained`."""
    index = tf.broadcast_to(tf.maximum(places.after - 1, 0)[:, tf.newaxis], tf.shape(contained))
    return (places.after == 0)[:, tf.newaxis] | tf.gather(contained, index, batch_dims=2)


def _shifted(at: tf.Tensor) -> tf.Tensor:
    """Shifts bool [batch, n, places] by one place: whether a hypothesis is at the previous place."""
    return tf.pad(at[:, :, :-1], [[0, 0], [0, 0], [1, 0]])


def allocated(merits: tf.Tensor, banks: tf.Tensor, num_banks: tf.Tensor, width: int) -> tf.Tensor:
    """Returns the indices of the candidates that enter the beam: int32 [batch, width].

    The best candidate of each bank comes first, from the highest bank to the lowest, then the second best, and so on.
    Banks thus have equal shares, and higher banks get the remaining beams.

    `merits` are float32 [batch, candidates], `NONE` for candidates that do not stay alive; `banks` are int32 [batch,
    candidates], below `num_banks`.
    """
    merits, order = tf.math.top_k(merits, merits.shape[1] or tf.shape(merits)[1])  # [batch, candidates]
    banks = tf.gather(banks, order, batch_dims=1)
    exists = merits > EXISTS
    in_bank = tf.where(exists[:, :, tf.newaxis], tf.one_hot(banks, num_banks), 0.0)  # [batch, candidates, banks]
    ranks = tf.reduce_sum(tf.cumsum(in_bank, axis=1, exclusive=True) * in_bank, -1)  # [batch, candidates]
    priority = tf.cast(banks, tf.float32) - ranks * tf.cast(num_banks, tf.float32)
    _, first = tf.math.top_k(tf.where(exists, priority, NONE), width)
    return tf.gather(order, first, batch_dims=1)
