"""A search that cannot write an ill-formed tree: brackets match and hold something, and each word has its leaf."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from t2t_lite.decoding.search.beam_state import NONE


@dataclasses.dataclass(frozen=True)
class TreeSymbols:
    """What the pieces of a vocabulary do in a tree (`t2t_lite.trees.linear`).

    Args:
      opens: for each piece the number, from 1, of the label that it opens; 0: none.
      closes: the same of the label that it closes.
      leaves: for each piece whether it is a leaf.
    """

    opens: tuple[int, ...]
    closes: tuple[int, ...]
    leaves: tuple[bool, ...]

    @classmethod
    def of(cls, pieces: Sequence[str], leaf: str) -> "TreeSymbols":
        """Returns those of a vocabulary.

        Args:
          pieces: the text of each piece.
          leaf: the piece that stands for a word.

        Raises:
          ValueError: if these are no symbols of trees.
        """
        labels = {piece[1:] for piece in pieces if piece[0] == "("} & {piece[1:] for piece in pieces if piece[0] == ")"}
        numbers = {label: number for number, label in enumerate(sorted(labels - {""}), start=1)}
        if leaf not in pieces or not numbers:
            raise ValueError(f"there are no brackets with labels and no {leaf}")
        return cls(
            tuple(numbers.get(piece[1:], 0) if piece[0] == "(" else 0 for piece in pieces),
            tuple(numbers.get(piece[1:], 0) if piece[0] == ")" else 0 for piece in pieces),
            tuple(piece == leaf for piece in pieces),
        )


def keep_well_formed(logits, ids, position, limits, leaf_counts, symbols: TreeSymbols, eos_id):
    """Forbids every piece after which a hypothesis could not become a well-formed tree any more.

    What a hypothesis needs is a leaf for each word that has none, the closing brackets of what is open, and the end. A
    bracket may open only if there is room for one more symbol than that before the length limit. Thus there always is
    a piece that is allowed, if at first there is room for a leaf for each word and the end.

    Args:
      logits: float32 [batch, beam, vocab].
      ids: int32 [batch, beam, max_length], the hypotheses' pieces, 0 from `position` on.
      position: int32 [], how many they are.
      limits: int32 [batch], largest lengths, with the end.
      leaf_counts: int32 [batch], how many words each sentence has.
      symbols: what the pieces do.
      eos_id: the end symbol.
    """
    opens, closes, leaves = (tf.constant(part) for part in (symbols.opens, symbols.closes, symbols.leaves))  # [vocab]
    opened = tf.gather(opens, ids)  # [batch, beam, max_length], labels
    ups = tf.cast(opened > 0, tf.int32)
    depths = tf.cumsum(ups - tf.cast(tf.gather(closes, ids) > 0, tf.int32), axis=2)  # [batch, beam, max_length]
    depth = depths[:, :, -1]  # [batch, beam]
    missing = leaf_counts[:, tf.newaxis] - tf.reduce_sum(tf.cast(tf.gather(leaves, ids), tf.int32), 2)  # [batch, beam]
    # The innermost open bracket is the last that opened to this depth.
    places = tf.range(1, tf.shape(ids)[2] + 1)
    innermost = tf.where((ups > 0) & (depths == depth[:, :, tf.newaxis]), places, 0)  # [batch, beam, max_length]
    place = tf.reduce_max(innermost, 2, keepdims=True)  # [batch, beam, 1], from 1; 0: nothing is open
    label = tf.reduce_sum(tf.where(places == place, opened, 0), 2)  # [batch, beam]
    holds_something = place[:, :, 0] != position  # else the last piece has opened it
    room = limits[:, tf.newaxis] - position - (missing + depth + 1)  # [batch, beam], pieces beyond what is needed
    may_open, may_end = (missing > 0) & (room >= 2), (missing == 0) & (depth == 0) & (position > 0)
    label = tf.where((depth > 0) & holds_something, label, -1)
    allowed = (
        ((opens > 0) & may_open[:, :, tf.newaxis])
        | (leaves & (missing > 0)[:, :, tf.newaxis])
        | (closes == label[:, :, tf.newaxis])
        | ((tf.range(len(symbols.opens)) == eos_id) & may_end[:, :, tf.newaxis])
    )
    return tf.where(allowed, logits, NONE)
