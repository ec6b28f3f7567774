"""tensor2tensor's vocabularies that are not learned: lists of tokens (TokenTextEncoder) and bytes (ByteTextEncoder).

The files are JSON: {"kind": "t2t_tokens", "pieces": [...]}, by id, and {"kind": "t2t_bytes"}. Ids 0 and 1 are padding
and end.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.data.vocab.base import (
    EOS_ID,
    PAD_ID,
    SYMBOLS,
    UNKNOWN_ID,
    Vocabulary,
    as_ragged,
    json_content,
    with_end_symbol,
)
from t2t_lite.data.vocab.characters import FIRST_BYTE
from t2t_lite.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

_RESERVED = ["<pad>", "<EOS>"]
# tensor2tensor's names for the token of unknown words, which usually follows the reserved tokens.
_UNKNOWN = ("UNK", "<UNK>", "<unk>")
# The subwords that a subword list needs to spell characters that it lacks.
_ESCAPES = [*map(str.encode, "\\_u;0123456789")]
# The whitespace at which Python splits a text, as code points for TensorFlow's regular expressions.
_WHITE_SPACE = r"[\t-\r\x1c-\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]+"


class T2tTokenVocabulary(Vocabulary):
    """Tokens separated by spaces, as in a text that was split by byte-pair encoding.

    A word that is not in the list becomes the unknown token; without an unknown token, it is an error.
    """

    starts_with_blank = True

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)
        self._own = content["pieces"]
        self.size = len(self._own)
        # For a token that is listed twice, the last id counts.
        self._ids = {token: id for id, token in enumerate(self._own) if id >= len(_RESERVED)}
        candidates = (self._own[UNKNOWN_ID : UNKNOWN_ID + 1], self._ids)
        named = (self._own.index(name) for tokens in candidates for name in _UNKNOWN if name in tokens)
        self.unknown_id = next(named, None)

    def tokens(self) -> list[str]:
        """Returns a unique name for every token by id: the token, followed by its id if it is a duplicate or empty."""
        last = {token: id for id, token in enumerate(self._own)}
        return [token if token and last[token] == id else f"{token}<{id}>" for id, token in enumerate(self._own)]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        rows = [[self._ids.get(token, self.unknown_id) for token in text.split()] for text in texts]
        for row, text in zip(rows, texts):
            if None in row:
                raise UserError(
                    f"{self.path} has no token '{text.split()[row.index(None)]}', and no UNK for unknown words"
                )
        return [[*(id for id in row if id is not None), EOS_ID] for row in rows]

    def encode(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        import tensorflow as tf

        ids = self._table.lookup(tf.strings.split(tf.strings.regex_replace(texts, _WHITE_SPACE, " ")))
        has_ids = tf.debugging.assert_non_negative(
            ids.flat_values, f"{self.path} lacks a token, and has no UNK for unknown words"
        )
        with tf.control_dependencies([] if has_ids is None else [has_ids]):
            return with_end_symbol(ids.with_flat_values(tf.identity(ids.flat_values)))

    def encode_all(self, texts: Sequence[str]) -> "tf.RaggedTensor":
        return as_ragged(self.ids_of(texts))

    def resources(self) -> list[object]:
        return [self._table]

    @functools.cached_property
    def _table(self) -> "tf.lookup.StaticHashTable":
        import tensorflow as tf

        with tf.init_scope():
            tokens = tf.lookup.KeyValueTensorInitializer(
                tf.constant([*self._ids], tf.string), tf.constant([*self._ids.values()], tf.int32)
            )
            return tf.lookup.StaticHashTable(tokens, -1 if self.unknown_id is None else self.unknown_id)

    def _text_of(self, token: int) -> str:
        return f" {self._own[token]}"


class T2tByteVocabulary(Vocabulary):
    """The 256 byte values of UTF-8, which tensor2tensor's character problems use."""

    unknown_id = None
    size = len(_RESERVED) + 256

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        del content
        super().__init__(path)

    def tokens(self) -> list[str]:
        return [*SYMBOLS[: len(_RESERVED)], *(f"<0x{byte:02X}>" for byte in range(256))]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*(byte + len(_RESERVED) for byte in text.encode("utf-8", errors="replace")), EOS_ID] for text in texts]

    def encode(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        from t2t_lite.data.vocab.wordpiece_ops import byte_ids

        return with_end_symbol(byte_ids(texts) - (FIRST_BYTE - len(_RESERVED)))

    def _text_of(self, token: int) -> str:
        return ""

    def _byte_of(self, token: int) -> int | None:
        return None if token in (PAD_ID, EOS_ID) else token - len(_RESERVED)


def is_token_list(content: bytes) -> bool:
    """Returns whether a file is a tensor2tensor token list, which unlike a subword list lacks the escapes."""
    lines = [line.strip() for line in content.split(b"\n")]
    return lines[:2] == [name.encode() for name in _RESERVED] and not set(lines).issuperset(_ESCAPES)


def token_list(content: bytes) -> bytes:
    own = [line.strip() for line in content.decode("utf-8").removesuffix("\n").split("\n")]
    return json_content("t2t_tokens", own)


def byte_list() -> bytes:
    return json_content("t2t_bytes", [])
