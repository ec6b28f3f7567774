"""Search constraints for parsing.

`TreeConstraint` allows only well-formed trees: brackets match and are not empty, and each word has one leaf.
`WordConstraint` only requires that each word has one leaf.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from t2t_lite.data.vocab import EOS_ID
from t2t_lite.decoding.engine import Request
from t2t_lite.decoding.search.beam_state import NONE, BeamState, SearchInputs
from t2t_lite.decoding.search_requests import LineConstraint
from t2t_lite.errors import UserError
from t2t_lite.trees.linear import LEAVES, WORD
from t2t_lite.trees.tokenizer import split_at_blanks


@dataclasses.dataclass(frozen=True)
class TreeSymbols:
    """The role of each token of a vocabulary in linear trees (`t2t_lite.trees.linear`)."""

    opens: tuple[int, ...]  # for each token, the number (from 1) of the label that it opens; 0: none
    closes: tuple[int, ...]  # for each token, the number of the label that it closes; 0: none
    leaves: tuple[bool, ...]  # for each token, whether it is a leaf

    @classmethod
    def of(cls, tokens: Sequence[str]) -> "TreeSymbols":
        """Returns the roles of a vocabulary's tokens, given their texts.

        Raises ValueError if the tokens are not symbols of trees.
        """
        labels = {token[1:] for token in tokens if token[0] == "("} & {token[1:] for token in tokens if token[0] == ")"}
        numbers = {label: number for number, label in enumerate(sorted(labels - {""}), start=1)}
        if WORD not in tokens or not numbers:
            raise ValueError(f"there are no brackets with labels and no {WORD}")
        return cls(
            tuple(numbers.get(token[1:], 0) if token[0] == "(" else 0 for token in tokens),
            tuple(numbers.get(token[1:], 0) if token[0] == ")" else 0 for token in tokens),
            _are_leaves(tokens),
        )


@dataclasses.dataclass(frozen=True)
class TreeConstraint:
    """A `Constraint` that forbids all tokens after which the output cannot become a well-formed tree.

    The number of words in each line is `leaf_counts`, int32 [batch]. To be complete, a hypothesis still needs a leaf
    for each word that has none, a closing bracket for each open one, and the end symbol. A bracket may open only if the
    length limit also leaves room for this bracket and its closing bracket. Therefore, some token is always allowed if
    the limit leaves room for all leaves and the end symbol.
    """

    symbols: TreeSymbols
    eos_id: int = EOS_ID  # the end symbol

    def apply(self, logits: tf.Tensor, unconstrained: tf.Tensor, state: BeamState, inputs: SearchInputs) -> tf.Tensor:
        """See `Constraint`."""
        symbols, ids = self.symbols, state.ids
        opens, closes, leaves = map(tf.constant, (symbols.opens, symbols.closes, symbols.leaves))  # [vocab]
        opened = tf.gather(opens, ids)  # [batch, beam, max_length], labels
        ups = tf.cast(opened > 0, tf.int32)
        depths = tf.cumsum(ups - tf.cast(tf.gather(closes, ids) > 0, tf.int32), axis=2)  # [batch, beam, max_length]
        depth = depths[:, :, -1]  # [batch, beam]
        leaf_counts = inputs.constraint_inputs["leaf_counts"][:, tf.newaxis]
        missing = leaf_counts - tf.reduce_sum(tf.cast(tf.gather(leaves, ids), tf.int32), 2)  # [batch, beam]
        # The innermost open bracket is the last opening bracket that led to the current depth.
        places = tf.range(1, tf.shape(ids)[2] + 1)
        innermost = tf.where((ups > 0) & (depths == depth[:, :, tf.newaxis]), places, 0)  # [batch, beam, max_length]
        place = tf.reduce_max(innermost, 2, keepdims=True)  # [batch, beam, 1], from 1; 0: nothing is open
        label = tf.reduce_sum(tf.where(places == place, opened, 0), 2)  # [batch, beam]
        is_empty = place[:, :, 0] == state.position  # the last token is the innermost open bracket
        # [batch, beam], number of tokens left beyond those still needed
        room = inputs.limits[:, tf.newaxis] - state.position - (missing + depth + 1)
        may_open, may_end = (missing > 0) & (room >= 2), (missing == 0) & (depth == 0) & (state.position > 0)
        label = tf.where((depth > 0) & tf.logical_not(is_empty), label, -1)
        allowed = (
            ((opens > 0) & may_open[:, :, tf.newaxis])
            | (leaves & (missing > 0)[:, :, tf.newaxis])
            | (closes == label[:, :, tf.newaxis])
            | ((tf.range(len(symbols.opens)) == self.eos_id) & may_end[:, :, tf.newaxis])
        )
        return tf.where(allowed, logits, NONE)


@dataclasses.dataclass(frozen=True)
class WordConstraint:
    """A `Constraint` after which each output has exactly one leaf per word; brackets are free.

    The number of words in each line is `word_counts`, int32 [batch].
    """

    leaves: tuple[bool, ...]  # for each token, whether it is a leaf
    eos_id: int = EOS_ID  # the end symbol

    def apply(self, logits: tf.Tensor, unconstrained: tf.Tensor, state: BeamState, inputs: SearchInputs) -> tf.Tensor:
        """See `Constraint`."""
        leaves = tf.constant(self.leaves)  # [vocab]
        found = tf.reduce_sum(tf.cast(tf.gather(leaves, state.ids), tf.int32), 2)  # [batch, beam]
        missing = inputs.constraint_inputs["word_counts"][:, tf.newaxis] - found
        # [batch, beam], number of tokens left beyond the missing leaves and the end symbol
        room = inputs.limits[:, tf.newaxis] - state.position - (missing + 1)
        missing, room = missing[:, :, tf.newaxis], room[:, :, tf.newaxis]
        tokens = tf.range(tf.shape(logits)[2])
        allowed = tf.where(leaves, missing > 0, tf.where(tokens == self.eos_id, missing == 0, room > 0))
        return tf.where(allowed, logits, NONE)


def all_words(lines: Request) -> LineConstraint:
    """Returns the constraint that each output has one leaf per word; it raises length limits to fit all leaves.

    Raises:
      UserError: if the model's outputs have no symbol for a word.
    """
    tokens = lines.vocabulary.tokens()
    if WORD not in tokens:
        raise UserError(f"constraints=all_words is for parsing, but the model's outputs have no symbol {WORD}; omit it")
    counts = [len(split_at_blanks(line)) for line in lines.texts]
    return LineConstraint(WordConstraint(_are_leaves(tokens)), {"word_counts": counts}, [count + 1 for count in counts])


def only_trees(symbols: TreeSymbols, leaf_counts: Sequence[int]) -> LineConstraint:
    """Returns the constraint for lines with `leaf_counts` words, which raises length limits to fit all leaves."""
    return LineConstraint(TreeConstraint(symbols), {"leaf_counts": leaf_counts}, [count + 1 for count in leaf_counts])


def _are_leaves(tokens: Sequence[str]) -> tuple[bool, ...]:
    return tuple(token in LEAVES for token in tokens)
