"""Pools the tokens of each word to one vector: a word begins with a token of its own, such as SentencePiece's space."""

from typing import NamedTuple

from t2t_lite.arrays import Array
from t2t_lite.layers.ops import ops


class Words(NamedTuple):
    """Which word each token belongs to.

    The end symbol counts as a word. As each other word has at least two tokens, including the one that begins it, the
    number of words is at most half the number of tokens, plus one; surplus words, which have no other token, are
    merged into the last one.
    """

    index: Array  # int32 [batch, tokens], the index of the token's word; for padding, that of the end symbol
    begins: Array  # bool [batch, tokens], whether the token begins a word, or is the end symbol
    is_token: Array  # bool [batch, tokens], False for padding
    number: Array  # int32 [batch, 1], number of words without the end symbol
    size: int | Array  # the maximum number of words, with the end symbol

    @classmethod
    def of(cls, ids: Array, word_token: int) -> "Words":
        """Returns the words of sources, int [batch, tokens], padded with 0, in which `word_token` begins each word."""
        length = ops.shape(ids)[1]
        size = length // 2 + 1
        is_token = ids != 0
        last = ops.sum(ops.cast(is_token, "int32"), axis=1, keepdims=True) - 1
        begins = is_token & ((ids == word_token) | (ops.arange(length, dtype="int32") == last))
        index = ops.clip(ops.cumsum(ops.cast(begins, "int32"), axis=1) - 1, 0, size - 1)
        number = ops.maximum(ops.max(index, axis=1, keepdims=True), 0)
        return cls(index, begins, is_token, number, size)

    def pooled(self, x: Array) -> Array:
        """Returns the sum of the vectors of each word, divided by the square root of their number.

        The token that begins a word is left out.

        Args:
          x: float [batch, tokens, width].

        Returns:
          float [batch, words, width]; 0 for padding.
        """
        after = ops.pad(self.is_token[:, 1:], ((0, 0), (0, 1)), constant_values=False)
        is_end = self.is_token & ~after  # the end symbol
        of_word = self._members(self.is_token & ~self.begins) | self._members(is_end)
        of_word = ops.cast(of_word, x.dtype)  # [batch, words, tokens]
        number = ops.maximum(ops.sum(of_word, axis=2, keepdims=True), 1)
        return ops.matmul(of_word / ops.sqrt(number), x)

    def mask(self) -> Array:
        """Returns the mask that hides padding, bool [batch, 1, 1, words]."""
        return (ops.arange(self.size, dtype="int32") <= self.number)[:, None, None, :]

    def to_tokens(self, weights: Array) -> Array:
        """Returns weights of words, float [..., words] with batch first, as weights of the tokens that begin them."""
        to = ops.cast(self._members(self.begins), weights.dtype)  # [batch, words, tokens]
        for _ in range(len(weights.shape) - 3):
            to = ops.expand_dims(to, 1)
        return ops.matmul(weights, to)

    def _members(self, chosen: Array) -> Array:
        """Returns whether a chosen token belongs to a word, bool [batch, words, tokens]."""
        places = ops.arange(self.size, dtype="int32")[None, :, None]
        return (self.index[:, None, :] == places) & chosen[:, None, :]
