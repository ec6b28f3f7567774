"""The vocabularies as TensorFlow ops, which work in graphs; and what tensorflow-text learns.

All tokens of a text are followed by the end symbol.
"""

import collections
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.data.vocab.symbols import (
    BLANKS,
    END_OF_RUN,
    EOS_ID,
    FIRST_BYTE,
    FIRST_TOKEN,
    JOINER,
    LANGUAGE_TOKEN,
    NO_CHARACTER,
    PAD_ID,
    SYMBOLS,
    UNKNOWN_ID,
    UNKNOWN_WORD,
    is_alphanumeric,
    parts_pattern,
)
from t2t_lite.system.tensorflow import stderr_held_back

with stderr_held_back():
    import tensorflow_text as _tensorflow_text
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

# It has no type information, and the types that a checker infers do not fit TensorFlow's.
tensorflow_text: Any = _tensorflow_text
RaggedTensor: Any = tf.RaggedTensor  # its constructors have no types

# Limits the learner's time and memory, which grow with the number of distinct words.
MAX_WORDS = 100_000
_PARTS = parts_pattern(lambda code_point: rf"\x{{{code_point:X}}}")


def tokenizer(tokens: Sequence[str], **options: Any) -> Any:  # noqa: ANN401  tensorflow-text has no types
    """Returns a word tokenizer whose ids start at 0; a word without tokens has the id len(tokens)."""
    with tf.init_scope():
        return tensorflow_text.FastWordpieceTokenizer(
            [*tokens, UNKNOWN_WORD],
            suffix_indicator=JOINER,
            unknown_token=UNKNOWN_WORD,
            token_out_type=tf.int32,
            **options,
        )


def sentencepiece_tokenizer(model: bytes, **options: Any) -> Any:  # noqa: ANN401  tensorflow-text has no types
    # Created outside of the current graph, so that other graphs can use it, too. A line that tensorflow-text's copy of
    # SentencePiece prints for every model is held back.
    with tf.init_scope(), stderr_held_back():
        return tensorflow_text.SentencepieceTokenizer(model=model, **({"add_eos": True} | options))


def with_end_symbol(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Appends the end symbol to each row of int32 [batch, (length)]."""
    end = tf.fill([ids.nrows(), 1], EOS_ID)
    ends = RaggedTensor.from_tensor(end, row_splits_dtype=ids.row_splits.dtype)
    return tf.concat([ids, ends], axis=1)


class WordTable:
    """Converts words, separated by white space, to ids.

    `unknown` is the id of words that `ids` does not have; None: such a word raises an error with the message `refusal`.
    `separators` is a regular expression for what separates words besides ASCII white space.
    """

    def __init__(self, ids: Mapping[Any, int], unknown: int | None, separators: str = "", refusal: str = "") -> None:
        with tf.init_scope():
            words = tf.lookup.KeyValueTensorInitializer(
                tf.constant([*ids], tf.string), tf.constant([*ids.values()], tf.int32)
            )
            self.table = tf.lookup.StaticHashTable(words, -1 if unknown is None else unknown)
        self._separators, self._refusal = separators, refusal if unknown is None else ""

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if self._separators:
            texts = tf.strings.regex_replace(texts, self._separators, " ")
        ids = self.table.lookup(tf.strings.split(texts))
        checks = [tf.debugging.assert_non_negative(ids.flat_values, self._refusal)] if self._refusal else []
        with tf.control_dependencies([check for check in checks if check is not None]):
            return with_end_symbol(ids.with_flat_values(tf.identity(ids.flat_values)))


class PieceList:
    """Converts texts to the ids that the pieces of a SentencePiece model have in a list, see `PieceListVocabulary`."""

    def __init__(self, model: bytes, ids: Mapping[str, int]) -> None:
        self.tokenizer = sentencepiece_tokenizer(model, out_type=tf.string, add_eos=False)
        with tf.init_scope():
            pieces = tf.lookup.KeyValueTensorInitializer([*ids], tf.constant([*ids.values()], tf.int32))
            self.table = tf.lookup.StaticHashTable(pieces, UNKNOWN_ID)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        # What is not a language token becomes "", which is no piece.
        token = tf.strings.regex_replace(texts, f"(?s)^{LANGUAGE_TOKEN.pattern}.*$|^.*$", r"\1")
        of_token = self.table.lookup(token)
        is_known = of_token != UNKNOWN_ID
        rest = tf.where(is_known, tf.strings.regex_replace(texts, f"^{LANGUAGE_TOKEN.pattern}", ""), texts)
        pieces = self.tokenizer.tokenize(rest)
        ids = pieces.with_flat_values(self.table.lookup(pieces.flat_values))
        rows: Any = [tf.ragged.boolean_mask(of_token[:, tf.newaxis], is_known[:, tf.newaxis]), ids]
        joined: Any = tf.concat(rows, 1)
        return with_end_symbol(joined)


class PlainList:
    """Splits texts at white space and punctuation into an imported list's tokens, see `PlainListVocabulary`."""

    def __init__(self, tokens: Sequence[str], lowercase: bool) -> None:
        self._tokenizer = tokenizer(tokens)
        self._size, self._lowercase = len(tokens), lowercase

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.lower(texts, encoding="utf-8") if self._lowercase else texts
        ids = self._tokenizer.tokenize(texts)
        known = ids.flat_values < self._size
        return with_end_symbol(ids.with_flat_values(tf.where(known, ids.flat_values + len(SYMBOLS), UNKNOWN_ID)))


class _Characters:
    def __init__(self, tokens: Sequence[str], symbols: Sequence[str], normalizes: bool) -> None:
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


_KINDS = {"bytes": lambda tokens, symbols, normalizes: byte_ids, "characters": _Characters, "wordpiece": _WordPiece}


def token_list(
    kind: str, tokens: Sequence[str], symbols: Sequence[str], normalizes: bool
) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns a function that converts texts to the ids of a `TokenListVocabulary`."""
    ids_of = _KINDS[kind](tokens, symbols, normalizes)
    return lambda texts: with_end_symbol(ids_of(texts))


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


# Marks subwords that continue a run in the word tokenizer; it does not occur in texts.
_CONTINUES = "\ue000\ue001"
_UNKNOWN = "\ue001\ue000"
# Longer runs do not occur in real text.
_MOST_BYTES = 2**20


# Bytes that do not occur in UTF-8 text: one stands for a backslash, the other surrounds a character's number.
_BACKSLASH, _NUMBER = b"\xfe", b"\xff"


class SubwordOps:
    """Converts texts to ids and back, like `SubwordVocabulary` in Python."""

    def __init__(self, subwords: Sequence[str], alphabet: Sequence[str]) -> None:
        is_word = np.zeros(sys.maxunicode + 1, bool)
        is_word[[number for number in range(sys.maxunicode + 1) if is_alphanumeric(chr(number))]] = True
        is_known = np.zeros(sys.maxunicode + 1, bool)
        is_known[[ord(character) for character in alphabet]] = True
        # The tokenizer takes the longest subword, at the start of a run and within it, so each is listed for both.
        own = [subword for subword in subwords if subword]
        ids = {subword: id for id, subword in enumerate(subwords)}
        listed = [*own, *(_CONTINUES + subword for subword in own), _UNKNOWN]
        texts = ["" if id in (PAD_ID, EOS_ID) else subword for id, subword in enumerate(subwords)]
        with tf.init_scope():
            self._is_word, self._is_known = tf.constant(is_word), tf.constant(is_known)
            self._texts = tf.constant(texts)
            self._ids = tf.constant([ids[subword] for subword in own] * 2 + [0])
            self._tokenizer = tensorflow_text.FastWordpieceTokenizer(
                listed,
                suffix_indicator=_CONTINUES,
                max_bytes_per_word=_MOST_BYTES,
                token_out_type=tf.int32,
                unknown_token=_UNKNOWN,
                no_pretokenization=True,
            )

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Converts strings [batch] to ids, int32 [batch, (length)]."""
        numbers = tf.strings.unicode_decode(texts, "UTF-8")  # [batch, (characters)]
        characters = tf.strings.unicode_split(texts, "UTF-8")
        is_word = tf.gather(self._is_word, numbers.flat_values)
        text_of = numbers.value_rowids()
        before = tf.concat([tf.constant([-1], tf.int64), text_of[:-1]], 0)
        starts = (text_of != before) | (is_word != tf.concat([[False], is_word[:-1]], 0))
        escaped = self._escaped(numbers.flat_values, characters.flat_values)
        run_of = tf.cumsum(tf.cast(starts, tf.int64)) - 1
        text_of_run = tf.boolean_mask(text_of, starts)
        joined = tf.strings.unsorted_segment_join(escaped, run_of, tf.size(text_of_run))
        # A single space between two runs is omitted.
        other = tf.fill(tf.minimum(tf.shape(text_of_run), 1), tf.constant(-1, tf.int64))
        is_first = text_of_run != tf.concat([other, text_of_run[:-1]], 0)
        is_last = text_of_run != tf.concat([text_of_run[1:], other], 0)
        is_kept = (joined != " ") | is_first | is_last
        joined, text_of_run = tf.boolean_mask(joined, is_kept) + END_OF_RUN, tf.boolean_mask(text_of_run, is_kept)
        # Escaped runs [batch, (runs)], see `split_runs`.
        runs = RaggedTensor.from_value_rowids(joined, text_of_run, nrows=numbers.nrows())
        ids = self._tokenizer.tokenize(runs.flat_values)
        of_runs = runs.with_flat_values(ids.with_flat_values(tf.gather(self._ids, ids.flat_values)))
        return with_end_symbol(of_runs.merge_dims(1, 2))

    def _escaped(self, numbers: tf.Tensor, characters: tf.Tensor) -> tf.Tensor:
        as_number = tf.strings.join(["\\", tf.strings.as_string(numbers), ";"])
        known = tf.where(tf.gather(self._is_known, numbers), characters, as_number)
        known = tf.where(characters == "\\", "\\\\", known)
        return tf.where(characters == END_OF_RUN, "\\u", known)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        before_end = tf.math.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1) == 0
        joined = tf.strings.reduce_join(tf.gather(self._texts, tf.where(before_end, ids, PAD_ID)), axis=1)
        runs = tf.strings.split(joined, END_OF_RUN)
        runs = tf.ragged.boolean_mask(runs, runs != "")
        texts = self._unescaped(runs.flat_values)
        first = tf.strings.unicode_decode(texts, "UTF-8")[:, :1].to_tensor(0)[:, :1]
        first = tf.pad(first, tf.stack([[0, 0], [0, 1 - tf.shape(first)[1]]]))[:, 0]  # no column if all rows are empty
        is_word = tf.gather(self._is_word, first)
        run_of = runs.value_rowids()
        same_text = tf.concat([[False], run_of[1:] == run_of[:-1]], 0)[: tf.shape(run_of)[0]]
        follows_word = tf.concat([[False], is_word[:-1]], 0)[: tf.shape(run_of)[0]]
        blanks = tf.where(same_text & follows_word & is_word, " ", "")
        return _joined(runs.with_flat_values(tf.strings.join([blanks, texts])))

    def _unescaped(self, runs: tf.Tensor) -> tf.Tensor:
        runs = tf.strings.regex_replace(runs, r"\\\\", _BACKSLASH)
        runs = tf.strings.regex_replace(runs, r"\\u", END_OF_RUN)
        runs = tf.strings.regex_replace(runs, r"\\0*([0-9]{1,7});", _NUMBER + rb"\1" + _NUMBER)
        runs = tf.strings.regex_replace(runs, r"\\[0-9]+;", NO_CHARACTER)
        parts = tf.strings.split(runs, _NUMBER)  # every second part is a number
        is_number = tf.ragged.range(parts.row_lengths()).flat_values % 2 == 1
        numbers = tf.strings.to_number(tf.where(is_number, parts.flat_values, "0"), tf.int32)
        characters = tf.strings.unicode_encode(
            tf.where(numbers > sys.maxunicode, ord(NO_CHARACTER), numbers)[:, tf.newaxis],
            "UTF-8",
            errors="replace",
            replacement_char=ord(NO_CHARACTER),
        )
        whole = _joined(parts.with_flat_values(tf.where(is_number, characters, parts.flat_values)))
        parts = tf.strings.split(whole, _BACKSLASH)
        # Prepended to all parts but the first: a join with this separator would omit it after leading empty parts.
        before = tf.where(tf.ragged.range(parts.row_lengths()).flat_values > 0, "\\", "")
        return _joined(parts.with_flat_values(tf.strings.join([before, parts.flat_values])))


def _joined(parts: tf.RaggedTensor) -> tf.Tensor:
    """Joins strings [rows, (parts)] to strings [rows], without padding all rows to the longest."""
    return tf.strings.unsorted_segment_join(parts.flat_values, parts.value_rowids(), tf.cast(parts.nrows(), tf.int32))


def learn_wordpieces(texts: Sequence[str], room: int, symbols: Sequence[str], normalizes: bool) -> list[str]:
    """Returns at most `room` WordPiece tokens of the texts' words that are not symbols."""
    cut, counts = cutter(symbols, normalizes), collections.Counter()
    for first in range(0, len(texts), 10_000):
        counts.update(cut(tf.constant(texts[first : first + 10_000])).flat_values.numpy().tolist())
    words = [(word.decode(), count) for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    words = [(word, count) for word, count in words if word not in symbols][:MAX_WORDS]
    # The learner searches for the minimum frequency of tokens. All words above this threshold become tokens, so it is
    # at least the frequency of the last word that fits, and rarely more than sixteen times that frequency.
    least = words[min(room, len(words)) - 1][1]
    learned = learner.learn(
        words,
        room,
        [],
        lower_thresh=max(1, least // 2),
        upper_thresh=max(2, 16 * least),
        num_iterations=3,
        max_input_tokens=-1,
        slack_ratio=0.02,
        joiner=JOINER,
    )
    return [token for token in learned if token not in symbols][:room]
