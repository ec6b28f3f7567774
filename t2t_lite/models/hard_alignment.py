"""The Transformer with hard monotonic alignment: the decoder sees the encoder's output for the next source word."""

from typing import NamedTuple

import keras

from t2t_lite.arrays import Array, Forwarded, State
from t2t_lite.config import HParams
from t2t_lite.layers.beam_ancestry import BeamAncestry, gather_parents
from t2t_lite.layers.cache import Cache
from t2t_lite.layers.dropout import Seeds
from t2t_lite.layers.ops import ops
from t2t_lite.models.transformer import Transformer


class AlignedSource(NamedTuple):
    """An `EncodedSource` that also contains the encoder's output for each word."""

    caches: list[Cache]  # see `EncodedSource`
    source_mask: Array  # see `EncodedSource`
    words: "SourceWords"


class SourceWords(NamedTuple):
    """The encoder's output for the words of a source, each at its first token, and then for the end symbol."""

    encoded: Array  # float [batch, source, hidden]; the order of the states after the end symbol is undefined
    number: Array  # int32 [batch, 1], the number of words


class AlignedState(NamedTuple):
    """A `DecoderState` with the number of source words consumed by each hypothesis."""

    caches: list[State]  # see `DecoderState`
    counts: Array  # int32 [batch, beam]


@keras.saving.register_keras_serializable(package="t2t_lite")
class HardAlignmentTransformer(Transformer):
    """A Transformer whose targets contain `hparams.hard_alignment_token` once for each source word, in order.

    The number of these tokens so far is the index of the next source word. The encoder's output for it is added to the
    embedding of the decoder's input (Ma et al. 2017, "Deterministic Attention for Sequence-to-Sequence Constituent
    Parsing"). A word is a source token or, if `hparams.source_word_token` is set, begins with this token; the encoder's
    output at this token represents the word. The variables are the same as a `Transformer`'s.

    Arguments and methods: see `Seq2SeqModel`.
    """

    has_hard_alignment = True
    costs_like_transformer = True  # the alignment adds little

    def __init__(
        self,
        hparams: HParams,
        vocab_size: int,
        inputs_vocab_size: int | None = None,
        dtype: keras.DTypePolicy | str | None = None,
        **kwargs: object,
    ) -> None:
        if type(self) is HardAlignmentTransformer:
            kwargs = {"name": "transformer"} | kwargs  # checkpoints store its variables under this name
        super().__init__(hparams, vocab_size, inputs_vocab_size, dtype, **kwargs)

    def start_decoding(
        self, inputs: Array, beam_size: int, max_length: int | Array
    ) -> tuple[AlignedSource, AlignedState]:
        """Returns (`AlignedSource`, `AlignedState`), see `Seq2SeqModel`."""
        encoded_source, state = super().start_decoding(inputs, beam_size, max_length)
        return encoded_source, AlignedState(state.caches, ops.zeros((ops.shape(inputs)[0], beam_size), "int32"))

    def decode_step(
        self, ids: Array, position: int | Array, encoded_source: State, state: State, ancestry: BeamAncestry
    ) -> tuple[Array, State, Array]:
        """Returns (logits, state, attention), see `Seq2SeqModel`."""
        counts = gather_parents(state.counts, ancestry) + self._is_aligned(ids)
        aligned = states_of_next_words(encoded_source.words, counts)
        x = self.position_encodings["targets"].step(self.embedding(ids) + aligned, position)
        return self._step(x, position, encoded_source, state._replace(counts=counts), ancestry)

    def _encoded_source(self, encoded: Array, inputs: Array) -> AlignedSource:
        words = source_words(encoded, inputs, self.hparams.source_word_token)
        return AlignedSource(*super()._encoded_source(encoded, inputs), words)

    def _embed_targets(self, ids: Array, encoded: Array, inputs: Array, seeds: Seeds | None) -> Array:
        words = source_words(encoded, inputs, self.hparams.source_word_token)
        counts = ops.cumsum(self._is_aligned(ids), axis=1)
        return self._embed(ids, "targets", seeds, added=states_of_next_words(words, counts))

    def _is_aligned(self, ids: Array) -> Array:
        return ops.cast(ids == self.hparams.hard_alignment_token, "int32")


def source_words(encoded: Array, inputs: Array, word_token: int) -> SourceWords:
    """Returns the encoder's output for each word.

    Args:
      encoded: float [batch, source, hidden], the encoder's output.
      inputs: int [batch, source], the source tokens, padded with 0.
      word_token: the id of the token that begins each word; 0: each token is a word.
    """
    number_of_tokens = ops.sum(ops.cast(inputs != 0, "int32"), axis=1, keepdims=True)
    if not word_token:
        return SourceWords(encoded, ops.maximum(number_of_tokens - 1, 0))
    length = ops.shape(inputs)[1]
    places = ops.arange(length, dtype="int32")
    begins_word = inputs == word_token
    # The states of the words and of the end symbol come first, in their order.
    order = ops.argsort(ops.where(begins_word | (places == number_of_tokens - 1), places, places + length), axis=1)
    encoded = ops.take_along_axis(encoded, order[:, :, None], axis=1)
    return SourceWords(encoded, ops.sum(ops.cast(begins_word, "int32"), axis=1, keepdims=True))


def states_of_next_words(words: SourceWords, counts: Array) -> Array:
    """Returns the encoder's output for the next source word of each target position.

    Args:
      words: from `source_words`.
      counts: int [batch, length], number of source words consumed so far, which is the index of the next one. After the
        last word, the next one is the end symbol.

    Returns:
      float [batch, length, hidden].
    """
    return ops.take_along_axis(words.encoded, ops.clip(counts, 0, words.number)[:, :, None], axis=1)


def make_transformer(
    hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None, **kwargs: Forwarded
) -> Transformer:
    """Returns a `HardAlignmentTransformer` if `hard_alignment_token` is set, otherwise a `Transformer`.

    Arguments: see `Seq2SeqModel`.
    """
    kind = HardAlignmentTransformer if hparams.hard_alignment_token else Transformer
    return kind(hparams, vocab_size, inputs_vocab_size, **kwargs)
