"""Counts tokens per word. Needs no TensorFlow."""

import collections

import numpy as np

from t2t_lite.data.vocab import Vocabulary


class WordCounter:
    """Counts the tokens in each word. Words are separated by spaces, and a space belongs to the word after it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        texts = [vocabulary.bytes_of(token) for token in range(vocabulary.size)]
        # After these tokens, the space between two runs of letters and digits is omitted.
        self._ends_run = np.array([vocabulary.ends_run(token) for token in range(vocabulary.size)])
        # False for padding and end symbols.
        self._is_text = np.array([bool(text) for text in texts]) | self._ends_run
        self._is_blank = np.array([text.isspace() for text in texts])
        self._starts_with_blank = np.array([text[:1].isspace() for text in texts])
        self._ends_with_blank = np.array([text[-1:].isspace() for text in texts])
        starts = (text.decode("utf-8", errors="replace")[:1] for text in texts)
        self._is_word = np.array([start.isalnum() for start in starts])

    def tokens_per_word(self, ids: np.ndarray, row_lengths: np.ndarray) -> collections.Counter[int]:
        """Returns {number of tokens: number of words with that many tokens}. End symbols are not counted.

        `ids` has the tokens of all texts, int [tokens]; `row_lengths` is int [texts].
        """
        rows = np.repeat(np.arange(len(row_lengths)), row_lengths)[self._is_text[ids]]
        ids = ids[self._is_text[ids]]
        first = np.ones(len(ids), bool)
        first[1:] = rows[1:] != rows[:-1]
        after_blank = np.zeros(len(ids), bool)
        after_blank[1:] = self._is_blank[ids[:-1]]
        # A run begins a word after an omitted space, or after a token that ends with a space.
        begins_run = first.copy()
        begins_run[1:] |= self._ends_run[ids[:-1]]
        is_word = self._is_word[ids[begins_run]]
        run = np.cumsum(begins_run) - 1
        left_out = is_word[run] & is_word[np.maximum(run - 1, 0)]
        written = np.zeros(len(ids), bool)
        written[1:] = self._ends_with_blank[ids[:-1]] & ~self._is_blank[ids[:-1]]
        after_run = begins_run & (left_out | (written & ~self._starts_with_blank[ids]))
        begins = first | (self._starts_with_blank[ids] & ~after_blank) | after_run
        words = np.bincount(np.cumsum(begins))[1:]
        counts = np.bincount(words)
        return collections.Counter({int(tokens): int(counts[tokens]) for tokens in np.flatnonzero(counts)})
