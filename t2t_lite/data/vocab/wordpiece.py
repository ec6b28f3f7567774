"""Vocabularies stored as lists of tokens: WordPiece (Schuster and Nakajima 2012), characters, bytes.

The file is JSON: {"kind": ..., "pieces": [...]}. Ids 0 to 2 are padding, end and unknown. Ids 3 to 258 are the 256
bytes, which encode all text that has no token, so that decoding restores any text (except NUL with WordPiece). The
tokens follow. WordPiece tokens include the blank before a word (" the"), and continuations of a word begin with "##".
An imported list has neither blanks nor bytes: see `PlainListVocabulary`.
"""

import collections
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from t2t_lite.data.vocab.base import SYMBOLS, UNKNOWN_ID, UNKNOWN_TEXT, Vocabulary, json_content, with_end_symbol
from t2t_lite.data.vocab.tf_text import tensorflow_text
from t2t_lite.errors import UserError

FIRST_BYTE = len(SYMBOLS)
FIRST_TOKEN = FIRST_BYTE + 256
JOINER = "##"
_UNKNOWN = "[UNK]"
# Letters, marks and digits, as Unicode blocks that have few other characters. Exact classes such as \p{L} make
# TensorFlow's regular expressions three times slower, and encoding should be as fast as that of byte-pair tokens.
_LETTERS = (
    r"0-9A-Za-z\x{AA}\x{B5}\x{BA}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1FFF}\x{2C00}-\x{2DFF}\x{3040}-\x{FEFE}"
    r"\x{FF10}-\x{FF19}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{FF66}-\x{1CFFF}\x{20000}-\x{10FFFF}"
)
# A word or any other single character, each with the blank before it; or a blank on its own.
_PARTS = rf" ?[{_LETTERS}]+| ?[^{_LETTERS} ]| "
# Limits the time and memory of the learner, which grow with the number of distinct words.
MAX_WORDS = 100_000
_T = TypeVar("_T", str, bytes)


class TokenListVocabulary(Vocabulary):
    """Bytes, characters or WordPiece tokens, all lossless.

    Args:
      path: the file.
      content: its parsed content.
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)
        self._own = content["pieces"]
        self._texts = [token.removeprefix(JOINER) if content["kind"] == "wordpiece" else token for token in self._own]
        self.size = FIRST_TOKEN + len(self._own)
        self._encode_tokens = {"bytes": _Bytes, "characters": _Characters, "wordpiece": _WordPiece}[content["kind"]](
            self._own, content.get("symbols", [])
        )

    def tokens(self) -> list[str]:
        """Returns a name for every token, by id; the names of bytes are <0x00> to <0xFF>."""
        return [*SYMBOLS, *(f"<0x{byte:02X}>" for byte in range(256)), *self._own]

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Turns strings [batch] into ids, int32 [batch, (length)], each with the end symbol."""
        return with_end_symbol(self._encode_tokens(texts))

    def _text_of(self, token: int) -> str:
        return UNKNOWN_TEXT if token < FIRST_TOKEN else self._texts[token - FIRST_TOKEN]

    def _byte_of(self, token: int) -> int | None:
        return token - FIRST_BYTE if FIRST_BYTE <= token < FIRST_TOKEN else None


class PlainListVocabulary(Vocabulary):
    """An imported list of WordPiece tokens. Tokens that continue a word begin with "##".

    Texts are split at blanks and punctuation, as in BERT, and decoded with a blank between any two words. A list
    without capitals is treated as one for lower-case text. Words without tokens are unknown.
    """

    starts_with_blank = True

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)
        self._own = content["pieces"]
        self.size = len(SYMBOLS) + len(self._own)
        self._lowercase = all(token == token.lower() for token in self._own)
        self._tokenizer = tensorflow_text.FastWordpieceTokenizer(
            [*self._own, _UNKNOWN], suffix_indicator=JOINER, unknown_token=_UNKNOWN, token_out_type=tf.int32
        )

    def tokens(self) -> list[str]:
        """Returns every token as it is in the list, by id."""
        return [*SYMBOLS, *self._own]

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Turns strings [batch] into ids, int32 [batch, (length)], each with the end symbol."""
        texts = tf.strings.lower(texts, encoding="utf-8") if self._lowercase else texts
        ids = self._tokenizer.tokenize(texts)
        known = ids.flat_values < len(self._own)
        return with_end_symbol(ids.with_flat_values(tf.where(known, ids.flat_values + len(SYMBOLS), UNKNOWN_ID)))

    def _text_of(self, token: int) -> str:
        if token < len(SYMBOLS):
            return " " + UNKNOWN_TEXT
        text = self._own[token - len(SYMBOLS)]
        return text.removeprefix(JOINER) if text.startswith(JOINER) else " " + text


class _Bytes:
    def __init__(self, tokens: Sequence[str], symbols: Sequence[str]) -> None:
        del tokens, symbols

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return _bytes_of(texts)


class _Characters:
    def __init__(self, tokens: Sequence[str], symbols: Sequence[str]) -> None:
        del symbols
        self._ids = np.full(max(map(ord, tokens), default=0) + 2, -1, np.int32)
        self._ids[[ord(character) for character in tokens]] = FIRST_TOKEN + np.arange(len(tokens), dtype=np.int32)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.unicode_split(texts, "UTF-8")
        # One row per character, with its code point; the last entry of the table is for all larger code points.
        numbers = tf.strings.unicode_decode(characters.flat_values, "UTF-8")
        places = numbers.with_flat_values(tf.minimum(numbers.flat_values, len(self._ids) - 1))
        ids = places.with_flat_values(tf.gather(self._ids, places.flat_values))
        return _join(characters, ids, -1)


class _WordPiece:
    def __init__(self, tokens: Sequence[str], symbols: Sequence[str]) -> None:
        self._cut = _cutter(symbols)
        self._tokenizer = tensorflow_text.FastWordpieceTokenizer(
            [*tokens, _UNKNOWN],
            suffix_indicator=JOINER,
            unknown_token=_UNKNOWN,
            token_out_type=tf.int32,
            no_pretokenization=True,
        )
        self._unknown = FIRST_TOKEN + len(tokens)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = self._cut(texts)
        return _join(words, self._tokenizer.tokenize(words.flat_values) + FIRST_TOKEN, self._unknown)


def _cutter(symbols: Sequence[str]) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns a function that splits strings [batch] into [batch, (parts)]; each symbol is a part."""
    escaped = "|".join(re.escape(symbol) for symbol in sorted(symbols, key=len, reverse=True))
    pattern = f"{escaped}|{_PARTS}" if symbols else _PARTS

    def cut(texts: tf.Tensor) -> tf.RaggedTensor:
        # The op treats NUL as the end of a text.
        texts = tf.strings.regex_replace(texts, "\x00", "\ufffd")
        if not symbols:
            return tensorflow_text.regex_split(texts, pattern, pattern)
        # Split at symbols first: otherwise a blank before one would be joined with its first character.
        around = tensorflow_text.regex_split(texts, escaped, escaped)
        parts = tensorflow_text.regex_split(around.flat_values, pattern, pattern)
        return around.with_flat_values(parts).merge_dims(1, 2)

    return cut


def _bytes_of(texts: tf.Tensor) -> tf.RaggedTensor:
    """Turns strings [batch] into the ids of their bytes, int32 [batch, (bytes)]."""
    split = tf.strings.bytes_split(texts)
    values = tf.reshape(tf.io.decode_raw(split.flat_values, tf.uint8), [-1])
    return split.with_flat_values(tf.cast(values, tf.int32) + FIRST_BYTE)


def _join(parts: tf.RaggedTensor, ids: tf.RaggedTensor, unknown: int) -> tf.RaggedTensor:
    """Joins the ids of the parts of each text, with byte tokens for parts that have no tokens.

    Args:
      parts: strings [batch, (parts)].
      ids: int32 [all parts, (tokens)], the ids of the flat values of `parts`.
      unknown: the id that marks a part without tokens.

    Returns:
      int32 [batch, (length)].
    """
    is_known = tf.not_equal(ids, unknown)
    has_tokens = tf.reduce_all(is_known, axis=1)
    as_bytes = _bytes_of(tf.where(has_tokens, "", parts.flat_values))
    joined = tf.concat([tf.ragged.boolean_mask(ids, is_known), as_bytes], axis=1)
    return parts.with_flat_values(joined).merge_dims(1, 2)


def train_tokens(kind: str, texts: Sequence[str], size: int, symbols: Sequence[str] = ()) -> bytes:
    """Learns a vocabulary and returns the content of its file.

    Args:
      kind: "wordpiece", "characters" or "bytes".
      texts: sentences; "bytes" needs none.
      size: number of tokens, the first 259 included; fewer if the text does not yield as many.
      symbols: texts that are always one WordPiece token.

    Raises:
      UserError: if `size` leaves no room for tokens, or a text cannot be a symbol.
    """
    for symbol in symbols if kind == "wordpiece" else ():
        if (
            symbol.startswith(JOINER)
            or symbol == _UNKNOWN
            or len(symbol.encode()) > 100
            or list(symbols).count(symbol) > 1
        ):
            raise UserError(
                f"'{symbol}' cannot be a symbol: it begins with {JOINER}, is reserved, too long or listed twice"
            )
    room = size - FIRST_TOKEN - len(symbols)
    if kind != "bytes" and room < 1:
        raise UserError(
            f"vocab_size={size} is too small: the first {FIRST_TOKEN} tokens are symbols and bytes; raise it"
        )
    if kind == "bytes":
        tokens = []
    elif kind == "characters":
        counts: collections.Counter[str] = collections.Counter()
        for text in texts:
            counts.update(text)
        tokens = [character for character, _ in _by_frequency(counts)[:room]]
    else:
        tokens = [*symbols, *_learn_wordpieces(texts, room, symbols)]
    return json_content(kind, tokens, symbols=list(symbols))


def _learn_wordpieces(texts: Sequence[str], size: int, symbols: Sequence[str]) -> list[str]:
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    cut, counts = _cutter(symbols), collections.Counter()
    for first in range(0, len(texts), 10_000):
        words = cut(tf.constant(texts[first : first + 10_000])).flat_values.numpy().tolist()
        counts.update(words)
    words = [(word.decode(), count) for word, count in _by_frequency(counts) if word.decode() not in symbols]
    words = words[:MAX_WORDS]
    # The learner searches for a frequency threshold that tokens must reach. All words above the threshold are tokens,
    # so it is at least the frequency of the last word that fits, and rarely more than sixteen times that.
    least = words[min(size, len(words)) - 1][1]
    tokens = learner.learn(
        words,
        size,
        [],
        lower_thresh=max(1, least // 2),
        upper_thresh=max(2, 16 * least),
        num_iterations=3,
        max_input_tokens=-1,
        slack_ratio=0.02,
        joiner=JOINER,
    )
    return [token for token in tokens if token not in symbols][:size]


def _by_frequency(counts: collections.Counter[_T]) -> list[tuple[_T, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def plain_list(content: bytes) -> bytes:
    """Converts an imported list of WordPiece tokens, one per line, to the content of a vocabulary file.

    The list's own symbols in brackets ("[CLS]") are dropped, because ids 0 to 2 replace them.

    Raises:
      UserError: if it is not such a list.
    """
    lines = [line.rstrip("\r") for line in content.decode("utf-8-sig").split("\n")]
    tokens = [line for line in lines if line and not re.fullmatch(r"\[([A-Z]+|unused)\d*\]", line)]
    if len(tokens) < 2 or not any(token.startswith(JOINER) for token in tokens):
        raise UserError(f'not a list of WordPiece tokens: no line begins with "{JOINER}"')
    if len(set(tokens)) < len(tokens):
        raise UserError("a list of WordPiece tokens that contains a token twice")
    return json_content("wordpiece_list", tokens, symbols=[])
