"""Vocabularies that work in TensorFlow graphs: SentencePiece BPE, WordPiece, characters, bytes and whole words.

The kind of a vocabulary file is detected from its content.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.data.vocab import sentencepiece, wordpiece
from t2t_lite.data.vocab import t2t as tensor2tensor
from t2t_lite.data.vocab.symbols import EOS_ID, PAD_ID, UNKNOWN_ID, UNKNOWN_TEXT
from t2t_lite.data.vocab.vocabulary import Vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import written_whole

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

_KINDS: dict[str, Callable[[Path, dict[str, Any]], Vocabulary]] = {
    "bytes": wordpiece.TokenListVocabulary,
    "characters": wordpiece.TokenListVocabulary,
    "sentencepiece_list": sentencepiece.PieceListVocabulary,
    "subwords": tensor2tensor.SubwordVocabulary,
    "t2t_bytes": tensor2tensor.T2tByteVocabulary,
    "t2t_tokens": tensor2tensor.T2tTokenVocabulary,
    "wordpiece": wordpiece.TokenListVocabulary,
    "wordpiece_list": wordpiece.PlainListVocabulary,
    "words": wordpiece.WordVocabulary,
}


def open_vocabulary(path: Path) -> Vocabulary:
    """Returns the vocabulary in a file. Raises a UserError if the file does not exist or is not a vocabulary."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"no vocabulary at {path}; generate the data first (t2t-lite-datagen)") from error
    if not content.startswith(b"{"):
        return sentencepiece.SentencePieceVocabulary(path)
    try:
        listed = json.loads(content)
        return _KINDS[listed["kind"]](path, listed)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise UserError(f"{path} is not a vocabulary file; generate the data again (t2t-lite-datagen)") from error


def train_vocabulary(
    texts: Iterable[str],
    size: int,
    path: Path,
    kind: str = "bpe",
    symbols: Sequence[str] = (),
    byte_fallback: bool = False,
    character_coverage: float = 1.0,
    normalize_whitespace: bool = False,
) -> None:
    """Learns a vocabulary and writes it to `path` atomically. The same texts give the same file.

    Args:
      size: number of tokens; fewer if the text does not yield enough.
      kind: "bpe" (SentencePiece), "wordpiece", "characters", "bytes" or "words" (split at whitespace).
      symbols: texts that are always one token (ignored by "characters" and "bytes"); with "words" they come first.
      byte_fallback, character_coverage: for "bpe", see `train_bpe`.
      normalize_whitespace: for "bpe" and "wordpiece": whether the vocabulary encodes every run of Unicode white space
        as one blank, and drops it at both ends of a text. Otherwise, these kinds keep all blanks.
    """
    kinds = ("bpe", "wordpiece", "characters", "bytes", "words")
    if kind not in kinds:
        raise UserError(f"unknown vocab_kind '{kind}'; use one of {', '.join(kinds)}")
    texts = list(texts)
    if kind != "bytes" and not any(texts):
        raise UserError("there is no text to learn a vocabulary from")
    if kind == "bpe":
        content = sentencepiece.train_bpe(texts, size, symbols, byte_fallback, character_coverage, normalize_whitespace)
    elif kind == "words":
        content = wordpiece.train_words(texts, size, symbols)
    else:
        content = wordpiece.train_tokens(kind, texts, size, symbols, normalize_whitespace)
    with written_whole(path) as partial:
        partial.write_bytes(content)


def import_vocabulary(source: Path, path: Path) -> None:
    """Imports a vocabulary file: copies t2t-lite files, renumbers SentencePiece models and lists of WordPiece tokens.

    tensor2tensor's subwords and tokens keep their ids. Lists of WordPiece tokens have one token per line; tokens that
    continue a word begin with "##".

    Raises a UserError if the file does not exist or has none of these formats.
    """
    try:
        content = Path(source).read_bytes()
    except OSError as error:
        raise UserError(f"no such file: {source}") from error
    try:
        if content.startswith(b"{"):
            open_vocabulary(source)
        elif tensor2tensor.is_token_list(content):
            content = tensor2tensor.token_list(content)
        elif tensor2tensor.is_subword_list(content):
            content = tensor2tensor.subword_list(content)
        elif sentencepiece.is_plain_list(content):
            content = wordpiece.plain_list(content)
        else:
            content = sentencepiece.renumbered(content)
        with written_whole(path) as partial:
            partial.write_bytes(content)
            open_vocabulary(partial)
    except (UserError, UnicodeDecodeError) as error:
        raise UserError(
            f"{source} is not a vocabulary of t2t-lite, a SentencePiece model, tensor2tensor's subwords or tokens, or "
            f"a list of WordPiece tokens ({error})"
        ) from error
