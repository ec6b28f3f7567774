"""SentencePiece models as vocabularies: lossless byte-pair encoding (Sennrich et al. 2016), and others' models."""

import io
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sentencepiece
import tensorflow as tf

from t2t_lite.data.vocab_base import EOS_ID, PAD_ID, UNKNOWN_ID, UNKNOWN_TEXT, Vocabulary
from t2t_lite.errors import UserError
from t2t_lite.quiet import stderr_held_back

with stderr_held_back():  # a few lines of C++ at every import
    import tensorflow_text

BLANK = "\u2581"  # how SentencePiece writes a blank

sentencepiece.set_min_log_level(2)


class SentencePieceVocabulary(Vocabulary):
    """A SentencePiece model that numbers padding, end and unknown 0, 1, 2.

    Raises:
      UserError: if the file is no such model.
    """

    def __init__(self, path: Path):
        super().__init__(path)
        model = self.path.read_bytes()
        try:
            pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise UserError(f"{path} is not a vocabulary file; generate the data again (t2t-lite-datagen)") from error
        if (pieces.pad_id(), pieces.eos_id(), pieces.unk_id()) != (PAD_ID, EOS_ID, UNKNOWN_ID):
            raise UserError(f"{path} does not number padding, end and unknown 0, 1, 2; make it with t2t-lite-datagen")
        self.size = pieces.get_piece_size()
        self._processor = pieces
        self._pieces = pieces.id_to_piece(list(range(self.size)))
        self._texts = [piece.replace(BLANK, " ") for piece in self._pieces]
        self._texts[UNKNOWN_ID] = UNKNOWN_TEXT
        self._bytes = {piece: int(self._pieces[piece][3:-1], 16) for piece in range(self.size) if pieces.is_byte(piece)}
        with stderr_held_back():  # tensorflow-text's copy of SentencePiece tells of every model that it loads
            self._tokenizer = tensorflow_text.SentencepieceTokenizer(model=model, add_eos=True)

    def pieces(self) -> list[str]:
        """Returns the text of every piece, by id, with `BLANK` for a blank; those of ids 0 to 2 are symbols."""
        return self._pieces

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Turns strings [batch] into ids, int32 [batch, (length)], each with the end symbol."""
        return self._tokenizer.tokenize(texts)

    def encode_all(self, texts: Sequence[str]) -> tf.RaggedTensor:
        """Does what `encode` does, outside of graphs and in 40% of its time: it makes no protocol buffers."""
        rows = self._processor.encode(list(texts), out_type=int, add_eos=True, num_threads=1)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        values = np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum())
        return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)

    def decode(self, ids: np.ndarray) -> list[str]:
        """Turns int [batch, length], padded with 0, into texts; what follows an end symbol is left out."""
        # Not SentencePiece's own decode, which drops blanks at the start of a text.
        return [text.removeprefix(" ") for text in super().decode(ids)]

    def _text_of(self, piece: int) -> str:
        return self._texts[piece]

    def _byte_of(self, piece: int) -> int | None:
        return self._bytes.get(piece)


def train_bpe(texts: Sequence[str], size: int, symbols: Sequence[str] = ()) -> bytes:
    """Learns byte-pair pieces and returns them as a SentencePiece model.

    The same texts give the same model. Decoding an encoded text gives it back if all its characters were in the
    texts, but for three that SentencePiece keeps for itself: U+2581, U+2585 and NUL.

    Args:
      texts: sentences.
      size: number of pieces, or fewer if the text holds no more.
      symbols: texts that are always a piece of their own.

    Raises:
      UserError: if the text has more different characters than `size` allows.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,
            pad_id=PAD_ID,
            eos_id=EOS_ID,
            unk_id=UNKNOWN_ID,
            bos_id=-1,
            user_defined_symbols=list(symbols),
            # Lossless: every character of the texts gets a piece, and nothing is folded, trimmed or left out.
            character_coverage=1.0,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=2**20,
            minloglevel=2,
        )
    except RuntimeError as error:
        characters = len(set().union(*texts))
        raise UserError(
            f"cannot make a vocabulary of {size} pieces: the text has {characters} different characters, each of "
            f"which needs a piece; raise the problem's vocab_size"
        ) from error
    return model.getvalue()


def renumbered(model: bytes) -> bytes:
    """Returns a SentencePiece model whose ids 0, 1, 2 are padding, end and unknown, and which has no start symbol.

    Its other pieces keep their order, so that a text is cut as before.

    Raises:
      UserError: if it is no SentencePiece model.
    """
    from sentencepiece import sentencepiece_model_pb2

    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    proto = sentencepiece_model_pb2.ModelProto()
    try:
        proto.ParseFromString(model)
        (unknown,) = [piece.piece for piece in proto.pieces if piece.type == kinds.UNKNOWN]
    except Exception as error:  # protobuf's own kinds of errors, and a count that is not one
        raise UserError("not a SentencePiece model") from error
    pieces = [piece for piece in proto.pieces if piece.type not in (kinds.UNKNOWN, kinds.CONTROL)]
    # Control symbols cannot be reached from text, but for those of padding and end none of them is needed.
    first = [("<pad>", kinds.CONTROL), ("</s>", kinds.CONTROL), (unknown, kinds.UNKNOWN)]
    del proto.pieces[:]
    proto.pieces.extend([kinds(piece=name, score=0.0, type=kind) for name, kind in first])
    proto.pieces.extend(pieces)
    spec = proto.trainer_spec
    spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id = PAD_ID, EOS_ID, UNKNOWN_ID, -1
    spec.pad_piece, spec.eos_piece, spec.unk_piece = (name for name, _ in first)
    spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


def is_plain_list(content: bytes) -> bool:
    """True if a file could be a list with a word-piece a line, and so is no SentencePiece model."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not re.search(r"[\x00-\x08\x0e-\x1f]", text)
