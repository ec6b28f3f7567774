"""Vocabularies that work in TensorFlow graphs: SentencePiece BPE, WordPiece, characters, bytes and whole words."""

from t2t_lite.data.vocab.base import EOS_ID, PAD_ID, UNKNOWN_ID, UNKNOWN_TEXT, Vocabulary
from t2t_lite.data.vocab.files import import_vocabulary, open_vocabulary, train_vocabulary

__all__ = [
    "EOS_ID",
    "PAD_ID",
    "UNKNOWN_ID",
    "UNKNOWN_TEXT",
    "Vocabulary",
    "import_vocabulary",
    "open_vocabulary",
    "train_vocabulary",
]
