"""Subword vocabularies, in-graph: SentencePiece byte-pair encoding (Sennrich et al. 2016), lossless."""

import hashlib
import io
import itertools
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import sentencepiece
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.files import written_whole
from t2t_lite.quiet import stderr_held_back

with stderr_held_back():  # a few lines of C++ at every import
    import tensorflow_text

PAD_ID = 0
EOS_ID = 1
UNKNOWN_ID = 2
UNKNOWN_TEXT = "⁇"
BLANK = "\u2581"  # how SentencePiece writes a blank

# More sentences than this make training slower and the pieces no better.
SAMPLE_SENTENCES = 2_000_000

sentencepiece.set_min_log_level(2)


class Vocabulary:
    """Pieces of text and their ids: 0 padding, 1 end of sequence, 2 unknown.

    Args:
      path: the vocabulary file.

    Raises:
      UserError: if there is no such file or it is no vocabulary.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        try:
            model = self.path.read_bytes()
            pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        except OSError as error:
            raise UserError(f"no vocabulary at {path}; generate the data first (t2t-lite-datagen)") from error
        except RuntimeError as error:
            raise UserError(f"{path} is not a vocabulary file; generate the data again (t2t-lite-datagen)") from error
        if (pieces.pad_id(), pieces.eos_id(), pieces.unk_id()) != (PAD_ID, EOS_ID, UNKNOWN_ID):
            raise UserError(f"{path} does not number padding, end and unknown 0, 1, 2; make it with t2t-lite-datagen")
        self.size = pieces.get_piece_size()
        self._processor = pieces
        self._texts = [piece.replace(BLANK, " ") for piece in self.pieces()]
        self._texts[UNKNOWN_ID] = UNKNOWN_TEXT
        self.sha256 = hashlib.sha256(model).hexdigest()
        with stderr_held_back():  # tensorflow-text's copy of SentencePiece tells of every model that it loads
            self._tokenizer = tensorflow_text.SentencepieceTokenizer(model=model, add_eos=True)

    def pieces(self) -> list[str]:
        """Returns the text of every piece, by id, with `BLANK` for a blank; those of ids 0 to 2 are symbols."""
        return self._processor.id_to_piece(list(range(self.size)))

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Turns strings [batch] into ids, int32 [batch, (length)], each with the end symbol."""
        return self._tokenizer.tokenize(texts)

    def decode(self, ids: np.ndarray) -> list[str]:
        """Turns int [batch, length], padded with 0, into texts; what follows an end symbol is left out."""
        # In Python: a graph of ragged strings takes 20 ms for one text. And not SentencePiece's own decode, which drops
        # blanks at the start of a text.
        return ["".join(self.pieces_of(row)).removeprefix(" ") for row in np.asarray(ids).tolist()]

    def pieces_of(self, ids: Sequence[int]) -> list[str]:
        """Turns the ids of one text into its parts, up to the end symbol and without padding.

        SentencePiece puts a blank before the first word, which stands in the first of them.

        Raises:
          UserError: if an id is beyond the vocabulary.
        """
        ids = list(itertools.takewhile(lambda piece: piece != EOS_ID, ids))
        if max(ids, default=0) >= self.size:
            raise UserError(f"{self.path} has {self.size} pieces, and no id {max(ids)}; is it the model's vocabulary?")
        texts = self._texts
        return [texts[piece] for piece in ids if piece != PAD_ID]


def train_vocabulary(texts: Iterable[str], size: int, path: Path) -> None:
    """Learns byte-pair pieces and writes them to `path`, which appears when it is whole.

    The same texts give the same file. Decoding an encoded text gives it back if all its characters were in the
    sample, but for three that SentencePiece keeps for itself: U+2581, U+2585 and NUL.

    Args:
      texts: sentences; a random sample of SAMPLE_SENTENCES is used if there are more.
      size: number of pieces, or fewer if the text holds no more.
      path: where to write.

    Raises:
      UserError: if there is no text, or it has more different characters than `size` allows.
    """
    sample = _sample(texts, SAMPLE_SENTENCES)
    if not any(sample):
        raise UserError("there is no text to learn a vocabulary from")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,
            pad_id=PAD_ID,
            eos_id=EOS_ID,
            unk_id=UNKNOWN_ID,
            bos_id=-1,
            # Lossless: every character of the sample gets a piece, and nothing is folded, trimmed or left out.
            character_coverage=1.0,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=2**20,
            minloglevel=2,
        )
    except RuntimeError as error:
        characters = len(set("".join(sample)))
        raise UserError(
            f"cannot make a vocabulary of {size} pieces: the text has {characters} different characters, each of "
            f"which needs a piece; raise the problem's vocab_size"
        ) from error
    with written_whole(path) as partial:
        partial.write_bytes(model.getvalue())


def _sample(texts: Iterable[str], size: int) -> list[str]:
    """Returns all texts, or an even random sample of `size` of them, the same each time (Vitter 1985, algorithm R)."""
    generator = random.Random(size)
    sample: list[str] = []
    for count, text in enumerate(texts):
        if count < size:
            sample.append(text)
        elif (place := generator.randrange(count + 1)) < size:
            sample[place] = text
    return sample
