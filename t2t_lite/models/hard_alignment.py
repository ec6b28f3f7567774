"""The Transformer with hard monotonic alignment: the decoder sees the encoder's output for the next source token."""

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
    """An `EncodedSource` that also contains the encoder's output."""

    caches: list[Cache]  # see `EncodedSource`
    source_mask: Array  # see `EncodedSource`
    encoded: Array  # float [batch, source, hidden]


class AlignedState(NamedTuple):
    """A `DecoderState` with the number of source tokens consumed by each hypothesis."""

    caches: list[State]  # see `DecoderState`
    counts: Array  # int32 [batch, beam]


@keras.saving.register_keras_serializable(package="t2t_lite")
class HardAlignmentTransformer(Transformer):
    """A Transformer whose targets contain `hparams.hard_alignment_token` once for each source token, in order.

    The number of these tokens so far is the index of the next source token. The encoder's output for it is added to the
    embedding of the decoder's input (Ma et al. 2017, "Deterministic Attention for Sequence-to-Sequence Constituent
    Parsing"). The variables are the same as a `Transformer`'s.

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
        aligned = aligned_encoder_states(encoded_source.encoded, encoded_source.source_mask, counts)
        x = self.position_encodings["targets"].step(self.embedding(ids) + aligned, position)
        return self._step(x, position, encoded_source, state._replace(counts=counts), ancestry)

    def _encoded_source(self, encoded: Array, source_mask: Array) -> AlignedSource:
        return AlignedSource(*super()._encoded_source(encoded, source_mask), encoded)

    def _embed_targets(self, ids: Array, encoded: Array, source_mask: Array, seeds: Seeds | None) -> Array:
        counts = ops.cumsum(self._is_aligned(ids), axis=1)
        return self._embed(ids, "targets", seeds, added=aligned_encoder_states(encoded, source_mask, counts))

    def _is_aligned(self, ids: Array) -> Array:
        return ops.cast(ids == self.hparams.hard_alignment_token, "int32")


def aligned_encoder_states(encoded: Array, source_mask: Array, counts: Array) -> Array:
    """Returns the encoder's output for the next source token of each target position.

    Args:
      encoded: float [batch, source, hidden], the encoder's output.
      source_mask: bool [batch, 1, 1, source], True = a token, False = padding.
      counts: int [batch, length], number of source tokens consumed so far, which is the index of the next one. The
        index stops at the last token, the end symbol.

    Returns:
      float [batch, length, hidden].
    """
    last = ops.sum(ops.cast(source_mask[:, 0, 0], "int32"), axis=1, keepdims=True) - 1
    indices = ops.clip(counts, 0, ops.maximum(last, 0))
    return ops.take_along_axis(encoded, indices[:, :, None], axis=1)


def make_transformer(
    hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None, **kwargs: Forwarded
) -> Transformer:
    """Returns a `HardAlignmentTransformer` if `hard_alignment_token` is set, otherwise a `Transformer`.

    Arguments: see `Seq2SeqModel`.
    """
    kind = HardAlignmentTransformer if hparams.hard_alignment_token else Transformer
    return kind(hparams, vocab_size, inputs_vocab_size, **kwargs)
