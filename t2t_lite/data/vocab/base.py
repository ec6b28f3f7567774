"""The base class of vocabularies, and what those share that are stored as a list of tokens in JSON."""

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of

PAD_ID = 0
EOS_ID = 1
UNKNOWN_ID = 2
UNKNOWN_TEXT = "⁇"
SYMBOLS = ("<pad>", "</s>", "<unk>")  # what lists of tokens call ids 0 to 2


class Vocabulary(ABC):
    """Tokens of text and their ids: 0 padding, 1 end of sequence, 2 unknown.

    Args:
      path: the vocabulary's file.

    Attributes:
      size: number of tokens, ids 0 to 2 included.
      sha256: checksum of the file.
    """

    size: int
    starts_with_blank = False  # whether a word's text includes the blank before it, which a text does not start with

    def __init__(self, path: Path):
        self.path = Path(path)
        self.sha256 = sha256_of(self.path)

    @abstractmethod
    def tokens(self) -> list[str]:
        """Returns a name for every token, by id: what tells it from all others; those of ids 0 to 2 are symbols."""

    @abstractmethod
    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Turns strings [batch] into ids, int32 [batch, (length)], each with the end symbol. Works in graphs."""

    def encode_all(self, texts: Sequence[str]) -> tf.RaggedTensor:
        """Does what `encode` does, outside of graphs and perhaps faster."""
        return self.encode(tf.constant(texts, tf.string))

    @abstractmethod
    def _text_of(self, token: int) -> str:
        """Returns the text that a token stands for, blanks included."""

    def _byte_of(self, token: int) -> int | None:
        """Returns the byte that a token stands for, or None if it stands for whole characters."""
        return None

    def decode(self, ids: np.ndarray) -> list[str]:
        """Turns int [batch, length], padded with 0, into texts; what follows an end symbol is left out."""
        # In Python: a graph of ragged strings takes 20 ms for one text.
        texts = ["".join(self.tokens_of(row)) for row in np.asarray(ids).tolist()]
        return [text.removeprefix(" ") for text in texts] if self.starts_with_blank else texts

    def tokens_of(self, ids: Sequence[int]) -> list[str]:
        """Turns the ids of one text into its parts, up to the end symbol and without padding.

        The parts of a text make it up, but for a blank before the first word that some vocabularies have. Of tokens
        that are bytes of the same characters, the first one has them all.

        Raises:
          UserError: if an id is beyond the vocabulary.
        """
        ids = list(itertools.takewhile(lambda token: token != EOS_ID, ids))
        for token in (max(ids, default=0), min(ids, default=0)):
            if not 0 <= token < self.size:
                raise UserError(f"{self.path} has {self.size} tokens, and no id {token}; is it the model's vocabulary?")
        parts = []
        for are_bytes, run in itertools.groupby(
            (token for token in ids if token != PAD_ID), lambda token: self._byte_of(token) is not None
        ):
            if are_bytes:
                values = bytes(map(self._byte_of, run))
                parts += [values.decode("utf-8", errors="replace"), *[""] * (len(values) - 1)]
            else:
                parts += map(self._text_of, run)
        return parts


def with_end_symbol(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Appends the end symbol to each row of int32 [batch, (length)]."""
    end = tf.fill([ids.nrows(), 1], EOS_ID)
    return tf.concat([ids, tf.RaggedTensor.from_tensor(end, row_splits_dtype=ids.row_splits.dtype)], axis=1)


def json_content(kind: str, tokens: Iterable[str], **more) -> bytes:
    """Returns the content of a vocabulary file that lists its tokens; `more` are further entries."""
    content = {"kind": kind, **more, "pieces": list(tokens)}  # "pieces" is what tokens were called at first
    return (json.dumps(content, ensure_ascii=False, indent=0) + "\n").encode()
