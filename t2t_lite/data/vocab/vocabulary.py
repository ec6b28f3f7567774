"""The base class of vocabularies, and what several of them have in common.

Only `encode` and `encode_all` need TensorFlow, which takes seconds to import.
"""

import functools
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_lite.data.vocab.symbols import EOS_ID, LANGUAGE_TOKEN, PAD_ID, UNKNOWN_ID
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256

if TYPE_CHECKING:
    import tensorflow as tf


class Vocabulary(ABC):
    """A mapping between text and token ids. Id 0 is padding, 1 the end of sequence, and usually 2 the unknown token.

    Attributes:
      size: number of tokens, ids 0 to 2 included.
      sha256: checksum of the file.
    """

    size: int
    unknown_id: int | None = UNKNOWN_ID  # None: there is no unknown token, and id 2 is an ordinary token
    # Whether a text's first token also begins with a space, which decode then removes.
    starts_with_blank = False
    _ops: Any  # encodes texts in graphs; made when it is first needed

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.sha256 = file_sha256(self.path)

    @abstractmethod
    def tokens(self) -> list[str]:
        """Returns a unique name for every token, by id; the names of ids 0 to 2 are symbols."""

    @abstractmethod
    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        """Converts texts to ids, each with the end symbol. Needs no TensorFlow."""

    def encode(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        """Converts strings [batch] to ids, int32 [batch, (length)], each with the end symbol. Works in graphs."""
        return self._ops(texts)

    @property
    def in_graph(self) -> ModuleType:
        """The module of TensorFlow ops, which takes seconds to import."""
        from t2t_lite.data.vocab import in_graph

        return in_graph

    def encode_all(self, texts: Sequence[str]) -> "tf.RaggedTensor":
        """Returns the same ids as `encode`. Works only outside of graphs and may be faster."""
        import tensorflow as tf

        return self.encode(tf.constant(texts, tf.string))

    @abstractmethod
    def _text_of(self, token: int) -> str:
        """Returns a token's text, including spaces."""

    def _byte_of(self, token: int) -> int | None:
        """Returns a token's byte, or None if it stands for whole characters."""
        return None

    def bytes_of(self, token: int) -> bytes:
        """Returns a token's text in UTF-8, which may be part of a character for a byte token; b"" if it has no text."""
        if token in (PAD_ID, EOS_ID):
            return b""
        byte = self._byte_of(token)
        return self._text_of(token).encode("utf-8") if byte is None else bytes([byte])

    @functools.cached_property
    def word_starts(self) -> bytes:
        """For each token 1 if its text begins with a blank, or it is the end symbol; else 0."""
        return bytes(token == EOS_ID or self.bytes_of(token).startswith(b" ") for token in range(self.size))

    @functools.cached_property
    def language_tokens(self) -> dict[str, str]:
        """The tokens that name the target language at the start of a source line, by language: {"fra": ">>fra<<"}."""
        matches = (LANGUAGE_TOKEN.fullmatch(token) for token in self.tokens())
        return {match[1][2:-2]: match[1] for match in matches if match}

    def ends_run(self, token: int) -> bool:
        """Returns whether a token ends a run of characters. The space between two runs may be omitted."""
        return False

    def resources(self) -> list[object]:
        """Returns the objects that TensorFlow must save with a graph that contains `encode`."""
        return []

    def decode(self, ids: np.ndarray | Sequence[Sequence[int]]) -> list[str]:
        """Converts rows of ids, with or without padding, to texts. Ignores everything after an end symbol."""
        # In Python, because a graph of ragged strings takes 20 ms per text.
        rows = ids if isinstance(ids, list) else np.asarray(ids).tolist()
        texts = ["".join(self.tokens_of(row)) for row in rows]
        return [text.removeprefix(" ") for text in texts] if self.starts_with_blank else texts

    def decode_in_graph(self, ids: "tf.Tensor") -> "tf.Tensor":
        """Converts int32 [batch, length], padded with 0 after the end symbol, to strings [batch]. Works in graphs."""
        import tensorflow as tf

        texts = tf.constant([self.bytes_of(token) for token in range(self.size)])
        texts = tf.strings.reduce_join(tf.gather(texts, ids), axis=1)
        texts = tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", errors="replace", replace_control_characters=False
        )
        return tf.strings.regex_replace(texts, "^ ", "") if self.starts_with_blank else texts

    def tokens_of(self, ids: Sequence[int]) -> list[str]:
        """Converts the ids of one text to the texts of its tokens, up to the end symbol and without padding.

        Their concatenation is the text, but some vocabularies put a space before the first word. In a run of byte
        tokens, the first token gets the text of the whole run, and the others get "". Raises a UserError if an id is
        outside the vocabulary.
        """
        parts = []
        for are_bytes, run in itertools.groupby(
            (token for token in self._before_end(ids) if token != PAD_ID),
            lambda token: self._byte_of(token) is not None,
        ):
            if are_bytes:
                values = bytes(byte for byte in map(self._byte_of, run) if byte is not None)
                parts += [values.decode("utf-8", errors="replace"), *[""] * (len(values) - 1)]
            else:
                parts += map(self._text_of, run)
        return parts

    def _before_end(self, ids: Sequence[int]) -> list[int]:
        """Returns the ids up to the end symbol. Raises a UserError if one is outside the vocabulary."""
        ids = list(itertools.takewhile(lambda token: token != EOS_ID, ids))
        for token in (max(ids, default=0), min(ids, default=0)):
            if not 0 <= token < self.size:
                raise UserError(f"{self.path} has {self.size} tokens but no id {token}; use the model's vocabulary")
        return ids


def as_ragged(rows: Sequence[Sequence[int]]) -> "tf.RaggedTensor":
    import tensorflow as tf

    RaggedTensor: Any = tf.RaggedTensor  # its constructors have no types
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    values = np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum())
    return RaggedTensor.from_row_lengths(values, lengths, validate=False)


def json_content(kind: str, tokens: Iterable[str], **more: object) -> bytes:
    """Returns the content of a JSON vocabulary file; `more` are additional entries."""
    content = {"kind": kind, **more, "pieces": list(tokens)}  # the key in the file format predates the name "tokens"
    return (json.dumps(content, ensure_ascii=False, indent=0) + "\n").encode()
