"""What every vocabulary offers, whatever its pieces are."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of

PAD_ID = 0
EOS_ID = 1
UNKNOWN_ID = 2
UNKNOWN_TEXT = "⁇"


class Vocabulary(ABC):
    """Pieces of text and their ids: 0 padding, 1 end of sequence, 2 unknown.

    Args:
      path: the vocabulary's file.

    Attributes:
      size: number of pieces, ids 0 to 2 included.
      sha256: checksum of the file.
    """

    size: int

    def __init__(self, path: Path):
        self.path = Path(path)
        self.sha256 = sha256_of(self.path)

    @abstractmethod
    def pieces(self) -> list[str]:
        """Returns a name for every piece, by id: what tells it from all others; those of ids 0 to 2 are symbols."""

    @abstractmethod
    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Turns strings [batch] into ids, int32 [batch, (length)], each with the end symbol. Works in graphs."""

    def encode_all(self, texts: Sequence[str]) -> tf.RaggedTensor:
        """Does what `encode` does, outside of graphs and perhaps faster."""
        return self.encode(tf.constant(texts, tf.string))

    @abstractmethod
    def _text_of(self, piece: int) -> str:
        """Returns the text that a piece stands for, blanks included."""

    def _byte_of(self, piece: int) -> int | None:
        """Returns the byte that a piece stands for, or None if it stands for whole characters."""
        return None

    def decode(self, ids: np.ndarray) -> list[str]:
        """Turns int [batch, length], padded with 0, into texts; what follows an end symbol is left out."""
        # In Python: a graph of ragged strings takes 20 ms for one text.
        return ["".join(self.pieces_of(row)) for row in np.asarray(ids).tolist()]

    def pieces_of(self, ids: Sequence[int]) -> list[str]:
        """Turns the ids of one text into its parts, up to the end symbol and without padding.

        The parts of a text make it up, but for a blank before the first word that some vocabularies have. Of pieces
        that are bytes of the same characters, the first one has them all.

        Raises:
          UserError: if an id is beyond the vocabulary.
        """
        ids = list(itertools.takewhile(lambda piece: piece != EOS_ID, ids))
        for piece in (max(ids, default=0), min(ids, default=0)):
            if not 0 <= piece < self.size:
                raise UserError(f"{self.path} has {self.size} pieces, and no id {piece}; is it the model's vocabulary?")
        parts = []
        for are_bytes, run in itertools.groupby(
            (piece for piece in ids if piece != PAD_ID), lambda piece: self._byte_of(piece) is not None
        ):
            if are_bytes:
                values = bytes(map(self._byte_of, run))
                parts += [values.decode("utf-8", errors="replace"), *[""] * (len(values) - 1)]
            else:
                parts += map(self._text_of, run)
        return parts
