"""The Transformer with hard monotonic alignment: the decoder sees the encoder's output for the next source word."""

from typing import Any, NamedTuple

import keras

from t2t_lite.arrays import Array, State
from t2t_lite.layers.beam_ancestry import BeamAncestry, Cache, gather_parents
from t2t_lite.layers.dropout import Seeds
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.open_brackets import MAX_DEPTH, BracketIds, BracketStack, OpenBrackets
from t2t_lite.layers.ops import ops
from t2t_lite.layers.word_pooling import Words
from t2t_lite.models.transformer import Transformer


class AlignedSource(NamedTuple):
    """An `EncodedSource` that also contains the encoder's output."""

    caches: list[Cache]  # see `EncodedSource`
    source_mask: Array  # see `EncodedSource`
    encoded: Array  # float [batch, words, hidden], the encoder's output
    number: Array  # int32 [batch, 1], the number of words, without the end symbol
    inputs: Array  # int [batch, source], the source tokens


class AlignedState(NamedTuple):
    """A `DecoderState` with the number of source words consumed by each hypothesis, and its open brackets."""

    caches: list[State]  # see `DecoderState`
    counts: Array  # int32 [batch, beam]
    stack: BracketStack | tuple[()]  # () without `bracket_labels`


@keras.saving.register_keras_serializable(package="t2t_lite")
class HardAlignmentTransformer(Transformer):
    """A Transformer whose targets contain `hparams.hard_alignment_token` once for each source word, in order.

    The number of these tokens so far is the index of the next source word. The encoder's output for it is added to the
    embedding of the decoder's input (Ma et al. 2017, "Deterministic Attention for Sequence-to-Sequence Constituent
    Parsing"). The variables are the same as a `Transformer`'s.

    With `hparams.bracket_labels`, embeddings of the label of the innermost open bracket and of the number of open
    brackets are added, too: the top of the parser's stack (as in Liu and Zhang 2017, "Encoder-Decoder Shift-Reduce
    Syntactic Parsing", which attends to it) and its depth, so that the model does not close the sentence early.

    A word is a source token. If `hparams.source_word_token` is set, each word begins with this token, and the vectors
    of its other tokens are pooled to one vector, so that the encoder's output has one vector per word, see `Words`.

    Arguments and methods: see `Seq2SeqModel`.
    """

    has_hard_alignment = True
    costs_like_transformer = True  # the alignment adds little
    _stored_name = "transformer"  # checkpoints store its variables under this name; not inherited

    def _make_embeddings(self, policy: keras.DTypePolicy) -> None:
        super()._make_embeddings(policy)
        hparams = self.hparams
        self.brackets = None
        if labels := hparams.bracket_labels:
            self.brackets = BracketIds(hparams.hard_alignment_token + hparams.hard_alignment_count, labels)
            # label 0: no open bracket
            how: dict[str, Any] = {"scaled": hparams.scaled_embeddings, "dtype": policy}
            self.bracket_embedding = Embedding(labels + 1, hparams.hidden_size, name="bracket_embedding", **how)
            self.depth_embedding = Embedding(MAX_DEPTH + 1, hparams.hidden_size, name="depth_embedding", **how)

    def build(self, input_shape: object = None) -> None:
        """See `Transformer`."""
        if self.brackets:
            self.bracket_embedding.build()
            self.depth_embedding.build()
        super().build(input_shape)

    def start_decoding(
        self, inputs: Array, beam_size: int, max_length: int | Array
    ) -> tuple[AlignedSource, AlignedState]:
        """Returns (`AlignedSource`, `AlignedState`), see `Seq2SeqModel`."""
        encoded_source, state = super().start_decoding(inputs, beam_size, max_length)
        batch = ops.shape(inputs)[0]
        stack = BracketStack.empty(batch, beam_size) if self.brackets else ()
        return encoded_source, AlignedState(state.caches, ops.zeros((batch, beam_size), "int32"), stack)

    def decode_step(
        self, ids: Array, position: int | Array, encoded_source: State, state: State, ancestry: BeamAncestry
    ) -> tuple[Array, State, Array]:
        """Returns (logits, state, attention), see `Seq2SeqModel`."""
        counts = gather_parents(state.counts, ancestry) + self._is_aligned(ids)
        x = self.embedding(ids) + states_of_next_words(encoded_source.encoded, encoded_source.number, counts)
        stack = state.stack
        if self.brackets:
            stack = stack.after(ids, self.brackets, ancestry)
            x = x + self._bracket_vectors(stack.open_brackets())
        x = self.position_encodings["targets"].step(x, position)
        state = state._replace(counts=counts, stack=stack)
        logits, state, attention = self._step(x, position, encoded_source, state, ancestry)
        if words := self._words(encoded_source.inputs):
            attention = words.to_tokens(attention)
        return logits, state, attention

    def attention(self, inputs: Array, targets: Array, kind: str, layer: int) -> Array:
        """Returns the attention weights of one layer, see `Seq2SeqModel`.

        The weights of a word that consists of several tokens are those of the token that begins it.
        """
        weights = super().attention(inputs, targets, kind, layer)
        words = self._words(inputs)
        if words is None or kind == "decoder":
            return weights
        if kind == "encoder":  # the row of each token is that of its word
            weights = ops.take_along_axis(weights, words.index[:, None, :, None], axis=2)
        return words.to_tokens(weights)

    def _words(self, inputs: Array) -> Words | None:
        """Returns the words of the source tokens, int [batch, source]; None if each token is a word."""
        token = self.hparams.source_word_token
        return Words.of(inputs, token) if token else None

    def _source_mask(self, inputs: Array) -> Array:
        words = self._words(inputs)
        return words.mask() if words else super()._source_mask(inputs)

    def _token_vectors(self, ids: Array, side: str, seeds: Seeds | None) -> Array:
        x = super()._token_vectors(ids, side, seeds)
        words = self._words(ids) if side == "inputs" else None
        return words.pooled(x) if words else x

    def _encoded_source(self, encoded: Array, inputs: Array) -> AlignedSource:
        source = super()._encoded_source(encoded, inputs)
        return AlignedSource(*source, encoded, number_of_words(source.source_mask), inputs)

    def _embed_targets(self, ids: Array, encoded: Array, inputs: Array, seeds: Seeds | None) -> Array:
        number = number_of_words(self._source_mask(inputs))
        added = states_of_next_words(encoded, number, ops.cumsum(self._is_aligned(ids), axis=1))
        if self.brackets:
            added = added + self._bracket_vectors(self.brackets.open_after(ids))
        return self._embed(ids, "targets", seeds, added=added)

    def _bracket_vectors(self, brackets: OpenBrackets) -> Array:
        return self.bracket_embedding(brackets.innermost) + self.depth_embedding(brackets.number)

    def _is_aligned(self, ids: Array) -> Array:
        first = self.hparams.hard_alignment_token
        return ops.cast((ids >= first) & (ids < first + self.hparams.hard_alignment_count), "int32")


def number_of_words(source_mask: Array) -> Array:
    """Returns the number of words without the end symbol, int32 [batch, 1]; the mask is bool [batch, 1, 1, words]."""
    return ops.maximum(ops.sum(ops.cast(source_mask[:, 0, 0], "int32"), axis=1, keepdims=True) - 1, 0)


def states_of_next_words(encoded: Array, number: Array, counts: Array) -> Array:
    """Returns the encoder's output for the next source word of each target position.

    Args:
      encoded: float [batch, words, hidden], the encoder's output.
      number: int32 [batch, 1], the number of words.
      counts: int [batch, length], number of source words consumed so far, which is the index of the next one. After the
        last word, the next one is the end symbol.

    Returns:
      float [batch, length, hidden].
    """
    return ops.take_along_axis(encoded, ops.clip(counts, 0, number)[:, :, None], axis=1)
