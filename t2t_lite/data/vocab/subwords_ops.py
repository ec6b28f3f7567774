"""The subwords of `subwords.py` as TensorFlow ops, which work in graphs."""

import sys
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.data.vocab.base import EOS_ID, PAD_ID
from t2t_lite.data.vocab.characters import END_OF_RUN, NO_CHARACTER, is_alphanumeric
from t2t_lite.data.vocab.tf_text import tensorflow_text

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
        self._is_word, self._is_known = tf.constant(is_word), tf.constant(is_known)
        # The tokenizer takes the longest subword, at the start of a run and within it, so each is listed for both.
        own = [subword for subword in subwords if subword]
        ids = {subword: id for id, subword in enumerate(subwords)}
        listed = [*own, *(_CONTINUES + subword for subword in own), _UNKNOWN]
        self._texts = tf.constant(["" if id in (PAD_ID, EOS_ID) else subword for id, subword in enumerate(subwords)])
        self._ids = tf.constant([ids[subword] for subword in own] * 2 + [0])
        self._tokenizer = tensorflow_text.FastWordpieceTokenizer(
            listed,
            suffix_indicator=_CONTINUES,
            max_bytes_per_word=_MOST_BYTES,
            token_out_type=tf.int32,
            unknown_token=_UNKNOWN,
            no_pretokenization=True,
        )

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Converts strings [batch] to ids, int32 [batch, (length)], without the end symbol."""
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
        runs = tf.RaggedTensor.from_value_rowids(  # pyright: ignore[reportAttributeAccessIssue]
            joined, text_of_run, nrows=numbers.nrows()
        )
        ids = self._tokenizer.tokenize(runs.flat_values)
        return runs.with_flat_values(ids.with_flat_values(tf.gather(self._ids, ids.flat_values))).merge_dims(1, 2)

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
