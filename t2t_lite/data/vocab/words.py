"""A whole-word vocabulary, for texts with few distinct words, such as the symbols of a tree.

The file is JSON: {"kind": "words", "pieces": [...]}. Ids 0 to 2 are padding, end and unknown; the words follow.
"""

import collections
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.data.vocab.base import (
    EOS_ID,
    SYMBOLS,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    Vocabulary,
    json_content,
    with_end_symbol,
)

if TYPE_CHECKING:
    import tensorflow as tf

# Up to this number of distinct words, the vocabulary is assumed to be closed. Above it, words that occur once become
# unknown, so that the model learns to handle unknown words.
_CLOSED = 1000


class WordVocabulary(Vocabulary):
    """Words separated by whitespace, from the parsed content of a file; other words are unknown."""

    starts_with_blank = True

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)
        self._own = content["pieces"]
        self.size = len(SYMBOLS) + len(self._own)
        self._ids = {word.encode(): id for id, word in enumerate(self._own, start=len(SYMBOLS))}

    def tokens(self) -> list[str]:
        return [*SYMBOLS, *self._own]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        # As bytes, because TensorFlow splits only at ASCII whitespace.
        return [[*(self._ids.get(word, UNKNOWN_ID) for word in _text_bytes(text).split()), EOS_ID] for text in texts]

    def encode(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        import tensorflow as tf

        return with_end_symbol(self._table.lookup(tf.strings.split(texts)))

    @functools.cached_property
    def _table(self) -> "tf.lookup.StaticHashTable":
        import tensorflow as tf

        with tf.init_scope():
            ids = tf.range(len(SYMBOLS), self.size)
            words = tf.lookup.KeyValueTensorInitializer(tf.constant(self._own, tf.string), ids)
            return tf.lookup.StaticHashTable(words, UNKNOWN_ID)

    def resources(self) -> list[object]:
        return [self._table]

    def _text_of(self, token: int) -> str:
        return " " + (UNKNOWN_TEXT if token < len(SYMBOLS) else self._own[token - len(SYMBOLS)])


def train_words(texts: Iterable[str], size: int, symbols: Iterable[str] = ()) -> bytes:
    """Returns a vocabulary file of the symbols and the most frequent words, with at most `size` tokens.

    If there are more than 1,000 distinct words, words that occur only once are left out.
    """
    counts: collections.Counter[bytes] = collections.Counter()
    for text in texts:
        counts.update(_text_bytes(text).split())
    symbols = list(symbols)
    least = 2 if len(counts) > _CLOSED else 1
    by_word = {word.decode(): count for word, count in counts.items()}
    known = {word for word, count in by_word.items() if count >= least}
    others = sorted(known - set(symbols), key=lambda word: (-by_word[word], word))
    words = [*symbols, *others][: size - len(SYMBOLS)]
    return json_content("words", words)


def _text_bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")
