"""The tokens of `wordpiece.py` as TensorFlow ops, which work in graphs."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.data.vocab.characters import BLANKS, FIRST_BYTE, FIRST_TOKEN, JOINER, parts_pattern
from t2t_lite.data.vocab.tf_text import tensorflow_text

# The last token of a tokenizer, whose id therefore equals the number of tokens.
UNKNOWN_WORD = "[UNK]"
_PARTS = parts_pattern(lambda code_point: rf"\x{{{code_point:X}}}")


def tokenizer(tokens: Sequence[str], **options: Any) -> Any:  # noqa: ANN401  tensorflow-text has no types
    """Returns a word tokenizer whose ids start at 0; a word without tokens has the id len(tokens)."""
    return tensorflow_text.FastWordpieceTokenizer(
        [*tokens, UNKNOWN_WORD],
        suffix_indicator=JOINER,
        unknown_token=UNKNOWN_WORD,
        token_out_type=tf.int32,
        **options,
    )


class _Characters:
    def __init__(self, tokens: Sequence[str], symbols: Sequence[str], normalizes: bool) -> None:
        del symbols, normalizes
        self._ids = np.full(max(map(ord, tokens), default=0) + 2, -1, np.int32)
        self._ids[[ord(character) for character in tokens]] = FIRST_TOKEN + np.arange(len(tokens), dtype=np.int32)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.unicode_split(texts, "UTF-8")
        # One row per character, with its code point; the table's last entry is for all larger code points.
        numbers = tf.strings.unicode_decode(characters.flat_values, "UTF-8")
        places = numbers.with_flat_values(tf.minimum(numbers.flat_values, len(self._ids) - 1))
        ids = places.with_flat_values(tf.gather(self._ids, places.flat_values))
        return _join(characters, ids, -1)


class _WordPiece:
    def __init__(self, tokens: Sequence[str], symbols: Sequence[str], normalizes: bool) -> None:
        self._cut = cutter(symbols, normalizes)
        self._tokenizer = tokenizer(tokens, no_pretokenization=True)
        self._unknown = FIRST_TOKEN + len(tokens)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = self._cut(texts)
        return _join(words, self._tokenizer.tokenize(words.flat_values) + FIRST_TOKEN, self._unknown)


KINDS = {"bytes": lambda tokens, symbols, normalizes: byte_ids, "characters": _Characters, "wordpiece": _WordPiece}


def cutter(symbols: Sequence[str], normalizes: bool) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns a function that splits strings [batch] into [batch, (parts)]; each symbol is a part.

    `normalizes`: whether it first replaces runs of white space with a blank, and removes it at both ends.
    """
    escaped = "|".join(re.escape(symbol) for symbol in sorted(symbols, key=len, reverse=True))
    pattern = f"{escaped}|{_PARTS}" if symbols else _PARTS

    def cut(texts: tf.Tensor) -> tf.RaggedTensor:
        # The op treats NUL as the end of a text.
        texts = tf.strings.regex_replace(texts, "\x00", "\ufffd")
        if normalizes:
            texts = tf.strings.strip(tf.strings.regex_replace(texts, BLANKS, " "))
        if not symbols:
            return tensorflow_text.regex_split(texts, pattern, pattern)
        # Split at symbols first, because a space before one would otherwise be joined with its first character.
        around = tensorflow_text.regex_split(texts, escaped, escaped)
        parts = tensorflow_text.regex_split(around.flat_values, pattern, pattern)
        return around.with_flat_values(parts).merge_dims(1, 2)

    return cut


def byte_ids(texts: tf.Tensor) -> tf.RaggedTensor:
    """Converts strings [batch] to the ids of their bytes, int32 [batch, (bytes)]."""
    split = tf.strings.bytes_split(texts)
    values = tf.reshape(tf.io.decode_raw(split.flat_values, tf.uint8), [-1])
    return split.with_flat_values(tf.cast(values, tf.int32) + FIRST_BYTE)


def _join(parts: tf.RaggedTensor, ids: tf.RaggedTensor, unknown: int) -> tf.RaggedTensor:
    """Joins the ids of each text's parts, with byte tokens for parts without tokens: int32 [batch, (length)].

    `parts` is [batch, (parts)]; `ids` is int32 [all parts, (tokens)]; `unknown` marks a part without tokens.
    """
    is_known = tf.not_equal(ids, unknown)
    has_tokens = tf.reduce_all(is_known, axis=1)
    as_bytes = byte_ids(tf.where(has_tokens, "", parts.flat_values))
    joined = tf.concat([tf.ragged.boolean_mask(ids, is_known), as_bytes], axis=1)
    return parts.with_flat_values(joined).merge_dims(1, 2)
