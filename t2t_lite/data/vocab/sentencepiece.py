"""SentencePiece models as vocabularies: lossless byte-pair encoding (Sennrich et al. 2016), and imported models."""

import base64
import functools
import io
import itertools
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sentencepiece

from t2t_lite.data.vocab.symbols import EOS_ID, LANGUAGE_TOKEN, PAD_ID, SYMBOLS, UNKNOWN_ID, UNKNOWN_TEXT, WHITE_SPACE
from t2t_lite.data.vocab.vocabulary import Vocabulary, as_ragged, json_content
from t2t_lite.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

BLANK = "\u2581"  # how SentencePiece writes a space
# In SentencePiece's files: the model type of byte pairs, and the piece types of ordinary text.
_BYTE_PAIRS = 2
_UNSET, _ORDINARY = 0, 1
# The numbers of ModelProto.denormalizer_spec and NormalizerSpec.precompiled_charsmap.
_DENORMALIZER, _CHARACTER_MAP = 5, 2
_BYTE = re.compile("<0x[0-9A-F]{2}>")

sentencepiece.set_min_log_level(2)


class SentencePieceVocabulary(Vocabulary):
    """A SentencePiece model, `model`, whose ids 0, 1, 2 are padding, end and unknown."""

    starts_with_blank = True  # SentencePiece's own decode drops all spaces at the start of a text

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._set_model(self.path.read_bytes())
        processor = self._processor
        if (processor.pad_id(), processor.eos_id(), processor.unk_id()) != (PAD_ID, EOS_ID, UNKNOWN_ID):
            raise UserError(f"{path} does not use ids 0, 1, 2 for padding, end, unknown; make it with t2t-lite-datagen")
        self._set_tokens(processor.id_to_piece(list(range(processor.get_piece_size()))))

    def _set_model(self, model: bytes) -> None:
        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            message = f"{self.path} is not a vocabulary file; generate the data again (t2t-lite-datagen)"
            raise UserError(message) from error

    def _set_tokens(self, tokens: Sequence[str]) -> None:
        self._tokens, self.size = list(tokens), len(tokens)
        self._texts = [token.replace(BLANK, " ") for token in tokens]
        self._texts[UNKNOWN_ID] = UNKNOWN_TEXT
        is_byte = self._processor.is_byte
        ids = ((id, self._processor.piece_to_id(token)) for id, token in enumerate(tokens) if _BYTE.fullmatch(token))
        self._bytes = {id: int(tokens[id][3:-1], 16) for id, there in ids if is_byte(there)}

    @functools.cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401  tensorflow-text has no types
        return self.in_graph.sentencepiece_tokenizer(self.model)

    @functools.cached_property
    def _denormalizes(self) -> bool:
        """Whether the model has rules that change decoded texts, which an imported one may have."""
        rules = dict(_fields(self.model)).get(_DENORMALIZER, b"")
        return bool(dict(_fields(rules)).get(_CHARACTER_MAP))

    def decode(self, ids: np.ndarray | Sequence[Sequence[int]]) -> list[str]:
        texts = super().decode(ids)
        if not self._denormalizes:
            return texts
        rows = ids if isinstance(ids, list) else np.asarray(ids).tolist()
        ended = (itertools.takewhile(lambda token: token != EOS_ID, row) for row in rows)
        return [self._processor.decode([token for token in row if token != PAD_ID]) for row in ended]

    def decode_in_graph(self, ids: "tf.Tensor") -> "tf.Tensor":
        if not self._denormalizes:
            return super().decode_in_graph(ids)
        import tensorflow as tf

        before_end = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1) == 0
        return self._tokenizer.detokenize(tf.ragged.boolean_mask(ids, before_end & (ids != PAD_ID)))

    def tokens(self) -> list[str]:
        """Returns the text of every token by id, with `BLANK` for a space; ids 0 to 2 are symbols."""
        return self._tokens

    @property
    def is_bpe(self) -> bool:
        return parsed_model(self.model).trainer_spec.model_type == _BYTE_PAIRS

    def merge_scores(self) -> dict[int, float]:
        """Returns the score of each ordinary token by id: of two possible merges, the higher-scoring one is made."""
        pieces = enumerate(parsed_model(self.model).pieces)
        return {id: piece.score for id, piece in pieces if piece.type in (_UNSET, _ORDINARY)}

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        # One by one, because for a list, SentencePiece starts a thread, which takes ten times as long as a short text.
        return [self._processor.encode(text, out_type=int, add_eos=True) for text in texts]

    def encode(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        import tensorflow as tf

        if tf.executing_eagerly():
            # Not the TensorFlow op, because setting TensorFlow's seed, as training does, discards the op's model.
            lines = tf.convert_to_tensor(texts, tf.string).numpy()
            return self.encode_all([line.decode("utf-8", errors="replace") for line in lines])
        return self._encode_in_graph(texts)

    def _encode_in_graph(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        return self._tokenizer.tokenize(texts)

    def encode_all(self, texts: Sequence[str]) -> "tf.RaggedTensor":
        """Returns the same ids as the TensorFlow op. Works only outside of graphs and takes 40% of the op's time."""
        return as_ragged(self.ids_of(texts))

    def resources(self) -> list[object]:
        return [self._tokenizer]

    def _text_of(self, token: int) -> str:
        return self._texts[token]

    def _byte_of(self, token: int) -> int | None:
        return self._bytes.get(token)


class PieceListVocabulary(SentencePieceVocabulary):
    """A SentencePiece model whose pieces have the ids of a list, as OPUS-MT publishes its models.

    The two sides of a model share a list, but each has its own SentencePiece model. Pieces that the list lacks are
    unknown. A text may begin with a language token such as ">>fra<<", which SentencePiece would split.

    The parsed content of the file has "pieces", with the symbols first; "model", in base64; and, if texts are prepared
    by Moses' normalizer of punctuation, "moses_punctuation", their language.
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        Vocabulary.__init__(self, path)
        self._set_model(base64.b64decode(content["model"]))
        self._set_tokens(content["pieces"])
        if self._denormalizes:
            raise UserError(f"{path}: rules that change decoded texts are not supported with a list of pieces")
        self._ids = {token: id for id, token in enumerate(self._tokens)}
        self._language = content.get("moses_punctuation", "")

    @property
    def is_bpe(self) -> bool:
        return False  # the ids of the parts of a merge may be unknown

    @functools.cached_property
    def _normalized(self) -> Callable[[str], str]:
        if not self._language:
            return str
        from sacremoses import MosesPunctNormalizer

        # As OPUS-MT's preprocess.sh.
        options = {"pre_replace_unicode_punct": True, "post_remove_control_chars": True}
        return MosesPunctNormalizer(self._language, **options).normalize

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        rows = []
        for text in texts:
            head = LANGUAGE_TOKEN.match(text)
            known = self._ids.get(head[1]) if head else None
            if head and known is not None:
                text = text[head.end() :]
            pieces = self._processor.encode(self._normalized(text), out_type=str)
            ids = [self._ids.get(piece, UNKNOWN_ID) for piece in pieces]
            rows.append([*([] if known is None else [known]), *ids, EOS_ID])
        return rows

    @functools.cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401  tensorflow-text has no types
        return self.in_graph.PieceList(self.model, self._ids)

    def resources(self) -> list[object]:
        return [self._tokenizer.tokenizer, self._tokenizer.table]

    def _encode_in_graph(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        if self._language:
            raise UserError("Moses' normalizer of punctuation does not work in graphs; export with --format=keras")
        return self._tokenizer(texts)


def piece_list(pieces: Sequence[str], model: bytes, language: str = "") -> bytes:
    """Returns the content of a `PieceListVocabulary`, given the pieces by id, with the symbols first.

    Raises UserError if `model` is no SentencePiece model, or most of its pieces are others.
    """
    try:
        if not model:
            raise RuntimeError("an empty file, for which SentencePiece prints lines")
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        of_model = {*processor.id_to_piece(list(range(processor.get_piece_size())))}
    except RuntimeError as error:
        raise UserError("the SentencePiece model of the vocabulary is damaged; copy it again") from error
    if 2 * len(of_model & {*pieces}) <= len(of_model):
        raise UserError("the SentencePiece model has other pieces than the vocabulary; pass the one that belongs to it")
    more = {"moses_punctuation": language} if language else {}
    return json_content("sentencepiece_list", pieces, model=base64.b64encode(model).decode(), **more)


def train_bpe(
    texts: Sequence[str],
    size: int,
    symbols: Sequence[str] = (),
    byte_fallback: bool = False,
    character_coverage: float = 1.0,
    normalize_whitespace: bool = False,
) -> bytes:
    """Learns byte-pair tokens from sentences and returns them as a SentencePiece model.

    The same texts give the same model. Without `normalize_whitespace`, encoding is lossless: with `byte_fallback`, for
    any text without U+2581, which SentencePiece uses for spaces; otherwise, for texts whose characters all have tokens.

    Args:
      size: number of tokens; fewer if the text does not yield enough.
      symbols: texts that are always one token.
      byte_fallback: whether 256 of the tokens are bytes, which encode characters without a token.
      character_coverage: with `byte_fallback`, the share of the texts' characters that get tokens; the rarest ones get
        none. Without it, all characters get tokens.
      normalize_whitespace: whether the model replaces runs of Unicode white space with a blank, and removes it at both
        ends of a text, in this package and outside of it.
    """
    for symbol in symbols:
        is_byte = byte_fallback and _BYTE.fullmatch(symbol)
        if symbol in SYMBOLS or is_byte or BLANK in symbol or list(symbols).count(symbol) > 1:
            raise UserError(
                f"'{symbol}' cannot be a symbol of a BPE vocabulary: it is the name of a special token, has {BLANK} "
                f"(U+2581), which stands for a blank, or is listed twice; use another tag"
            )
    model = io.BytesIO()
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
            # Each line has a character and its replacement, as code points in hexadecimal digits.
            rules.writelines(f"{ord(blank):X}\t20\n" for blank in WHITE_SPACE if blank != " ")
            rules.flush()
            normalization: dict[str, Any] = {"normalization_rule_name": "identity"}
            if normalize_whitespace:
                normalization = {"normalization_rule_tsv": rules.name}
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
                user_defined_symbols=[symbol.replace(" ", BLANK) for symbol in symbols],
                character_coverage=character_coverage if byte_fallback else 1.0,
                byte_fallback=byte_fallback,
                remove_extra_whitespaces=normalize_whitespace,
                max_sentence_length=2**20,  # skip no sentences
                **normalization,
                minloglevel=2,
            )
    except RuntimeError as error:
        characters = len(set().union(*texts))
        bytes_too = (
            ", as does each of the 256 bytes (to leave them out: byte_fallback = False)" if byte_fallback else ""
        )
        raise UserError(
            f"cannot make a vocabulary of {size} tokens: the text has {characters} distinct characters, each of "
            f"which needs a token{bytes_too}; raise the problem's vocab_size"
        ) from error
    if not normalize_whitespace:
        return model.getvalue()
    proto = parsed_model(model.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # another name each time; the model has the rules
    return proto.SerializeToString()


def renumbered(model: bytes) -> bytes:
    """Renumbers a SentencePiece model, so that ids 0, 1, 2 are padding, end and unknown. Removes the start symbol.

    The other tokens keep their order, so that texts are tokenized as before. Raises a UserError if `model` is not a
    SentencePiece model.
    """
    from google.protobuf import message

    kinds = {"UNKNOWN": 2, "CONTROL": 3}
    try:
        proto = parsed_model(model)
        (unknown,) = [piece.piece for piece in proto.pieces if piece.type == kinds["UNKNOWN"]]
    except (message.DecodeError, ValueError) as error:
        raise UserError("not a SentencePiece model") from error
    ours, spec = (PAD_ID, EOS_ID, UNKNOWN_ID, -1), proto.trainer_spec
    if (spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id) == ours:
        return model
    # Text never produces control symbols, and only those for padding and end are needed.
    others = [piece for piece in proto.pieces if piece.type not in kinds.values()]
    first = [("<pad>", "CONTROL"), ("</s>", "CONTROL"), (unknown, "UNKNOWN")]
    del proto.pieces[:]
    for name, kind in first:
        proto.pieces.add(piece=name, score=0.0, type=kinds[kind])
    proto.pieces.extend(others)
    spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id = ours
    spec.pad_piece, spec.eos_piece, spec.unk_piece = (name for name, _ in first)
    spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


def parsed_model(model: bytes) -> Any:  # noqa: ANN401  the class is made at run time
    return _model_class().FromString(model)


@functools.cache
def _model_class() -> Any:  # noqa: ANN401
    """Returns a class for SentencePiece's ModelProto with the fields changed here; it preserves all other fields.

    The class in the sentencepiece package needs a newer protobuf than TensorFlow's.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="t2t_lite/sentencepiece_model.proto", package="t2t_lite.spm")

    def add(name: str, **fields: tuple[int, Any]) -> None:
        added = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = kinds.LABEL_REPEATED if field == "pieces" else kinds.LABEL_OPTIONAL
            of_kind = {"type_name": f".t2t_lite.spm.{kind}"} if isinstance(kind, str) else {"type": kind}
            added.field.add(name=field, number=number, label=label, **of_kind)

    text, number, real = kinds.TYPE_STRING, kinds.TYPE_INT32, kinds.TYPE_FLOAT
    add("Piece", piece=(1, text), score=(2, real), type=(3, number))
    ids = {name: (40 + place, number) for place, name in enumerate(("unk_id", "bos_id", "eos_id", "pad_id"))}
    add(
        "Spec",
        model_type=(3, number),
        vocab_size=(4, number),
        **ids,
        unk_piece=(45, text),
        eos_piece=(47, text),
        pad_piece=(48, text),
    )
    add("Rules", normalization_rule_tsv=(6, text))
    add("Model", pieces=(1, "Piece"), trainer_spec=(2, "Spec"), normalizer_spec=(3, "Rules"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t2t_lite.spm.Model"))


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields (number, content) for each string or message in a protobuf message.

    Serving machines lack the package protobuf. Other fields are whole numbers in the messages that are read here.
    """
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            value |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte < 0x80:
                return value

    while place < len(message):
        field, wire_type = divmod(number(), 8)
        value = number()
        if wire_type == 2:
            yield field, message[place : place + value]
            place += value


def is_plain_list(content: bytes) -> bool:
    """Returns whether a file may be a list with one WordPiece token per line rather than a SentencePiece model."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not re.search(r"[\x00-\x08\x0e-\x1f]", text)
