"""The open brackets after each token of a linear tree, for whole sequences and step by step.

An opening bracket is put on a stack. A closing bracket removes the topmost one, whatever its label; if the stack is
empty, nothing happens. Other tokens change nothing.
"""

from typing import NamedTuple

from t2t_lite.arrays import Array
from t2t_lite.layers.beam_ancestry import BeamAncestry, gather_parents
from t2t_lite.layers.ops import ops

MAX_DEPTH = 100  # labels of brackets that are nested deeper are not known, and the number of brackets stops here


class OpenBrackets(NamedTuple):
    """What the model sees of the open brackets at each position."""

    number: Array  # int32 [batch, length], at most MAX_DEPTH
    innermost: Array  # int32 [batch, length], label of the innermost one: a number from 1, or 0 if none is open


class BracketIds(NamedTuple):
    """The ids of brackets in the vocabulary: those of the opening brackets, then of the closing ones, by label."""

    first: int  # id of the first opening bracket
    labels: int  # number of labels

    def opened(self, ids: Array) -> Array:
        """Returns the label that each token opens, int32 in the shape of ids: a number from 1, or 0."""
        return self._labels_from(self.first, ids)

    def closed(self, ids: Array) -> Array:
        """Returns the label that each token closes, int32 in the shape of ids: a number from 1, or 0."""
        return self._labels_from(self.first + self.labels, ids)

    def open_after(self, ids: Array) -> OpenBrackets:
        """Returns the open brackets after each token of int [batch, length]."""
        opened = self.opened(ids)
        sums = ops.cumsum(_as_int(opened > 0) - _as_int(self.closed(ids) > 0), axis=1)
        places = ops.arange(ops.shape(ids)[1], dtype="int32")
        is_before = places[None, :] <= places[:, None]  # [length, length]
        # The depth never becomes negative: after each token, it is the sum minus the lowest sum so far, if that is
        # below 0.
        lowest = ops.min(ops.where(is_before, sums[:, None, :], 0), axis=2)
        depths = sums - ops.minimum(lowest, 0)
        # The innermost open bracket is the last one that led to the current depth.
        is_candidate = is_before & (opened > 0)[:, None, :] & (depths[:, None, :] == depths[:, :, None])
        last = ops.max(ops.where(is_candidate, places + 1, 0), axis=2)
        labels = ops.take_along_axis(ops.pad(opened, ((0, 0), (1, 0))), last, axis=1)
        innermost = ops.where((depths > 0) & (depths <= MAX_DEPTH), labels, 0)
        return OpenBrackets(ops.minimum(depths, MAX_DEPTH), innermost)

    def _labels_from(self, first: int, ids: Array) -> Array:
        number = ops.cast(ids, "int32") - first + 1
        return ops.where((number >= 1) & (number <= self.labels), number, 0)


class BracketStack(NamedTuple):
    """The open brackets of each hypothesis in a search."""

    depth: Array  # int32 [batch, beam], number of open brackets
    labels: Array  # int32 [batch, beam, MAX_DEPTH], their labels, outermost first; entries from `depth` on are unused

    @classmethod
    def empty(cls, batch: int | Array, beam_size: int) -> "BracketStack":
        """Returns stacks without brackets."""
        return cls(ops.zeros((batch, beam_size), "int32"), ops.zeros((batch, beam_size, MAX_DEPTH), "int32"))

    def after(self, ids: Array, brackets: BracketIds, ancestry: BeamAncestry) -> "BracketStack":
        """Returns the stacks after the tokens int [batch, beam], which extend the hypotheses' parents."""
        opened, closed = brackets.opened(ids), brackets.closed(ids)
        depth = gather_parents(self.depth, ancestry)
        depth = ops.maximum(depth + _as_int(opened > 0) - _as_int(closed > 0), 0)
        is_new = (opened > 0)[:, :, None] & self._is_top(depth)
        return BracketStack(depth, ops.where(is_new, opened[:, :, None], gather_parents(self.labels, ancestry)))

    def open_brackets(self) -> OpenBrackets:
        """Returns the open brackets of each hypothesis."""
        innermost = ops.sum(ops.where(self._is_top(self.depth), self.labels, 0), axis=2)
        return OpenBrackets(ops.minimum(self.depth, MAX_DEPTH), innermost)

    @staticmethod
    def _is_top(depth: Array) -> Array:
        return ops.arange(MAX_DEPTH, dtype="int32") == depth[:, :, None] - 1


def _as_int(condition: Array) -> Array:
    return ops.cast(condition, "int32")
