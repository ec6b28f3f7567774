"""The Transformer (section 3 of the paper)."""

from typing import Any, NamedTuple

import keras

from t2t_lite.arrays import Array, State
from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.layers.beam_ancestry import BeamAncestry, Cache
from t2t_lite.layers.dropout import Dropout, Seeds
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.norm import make_norm
from t2t_lite.layers.ops import ops
from t2t_lite.layers.transformer import Stepping
from t2t_lite.models.base import Seq2SeqModel, as_pair
from t2t_lite.models.sublayers import decoder_layer, encoder_layer, position_encoding

END = 1  # the id of the end symbol


class EncodedSource(NamedTuple):
    """The encoder's output, projected for cross-attention; shared by all steps and hypotheses."""

    caches: list[Cache]  # for each decoder layer, the `Cache` of its cross-attention, [batch, heads, source, depth]
    source_mask: Array  # bool [batch, 1, 1, source], True = a token, False = padding


class DecoderState(NamedTuple):
    """The decoder state passed from step to step."""

    caches: list[State]  # for each decoder layer, its self-attention's cache, see `SelfAttention.step`


@keras.saving.register_keras_serializable(package="t2t_lite")
class Transformer(Seq2SeqModel):
    """The encoder-decoder of the paper. See `Seq2SeqModel` for its arguments and methods.

    Raises:
      UserError: if the settings request hard alignment, which only `HardAlignmentTransformer` supports.
    """

    has_hard_alignment = False
    costs_like_transformer = True  # not inherited: subclasses with the same cost set it too, see `t2t_lite.cost`

    def __init__(
        self,
        hparams: HParams,
        vocab_size: int,
        inputs_vocab_size: int | None = None,
        dtype: keras.DTypePolicy | str | None = None,
        **kwargs: object,
    ) -> None:
        if hparams.hard_alignment_token and not self.has_hard_alignment:
            raise UserError(
                f"hard_alignment_token={hparams.hard_alignment_token}: {type(self).__name__} has no hard alignment; "
                f"derive it from HardAlignmentTransformer, or set hard_alignment_token=0"
            )
        super().__init__(hparams, vocab_size, inputs_vocab_size, dtype, **kwargs)
        policy = self.dtype_policy
        self._make_embeddings(policy)
        self.token_dropout = Dropout(hparams.token_dropout, name="token_dropout", dtype=policy)
        self.embedding_dropout = Dropout(hparams.residual_dropout, name="embedding_dropout", dtype=policy)
        self.encoder_layers = [encoder_layer(hparams, i, policy) for i in range(hparams.num_encoder_layers)]
        self.decoder_layers = [decoder_layer(hparams, i, policy) for i in range(hparams.num_decoder_layers)]
        # With pre-norm, the last layer's output is not normalized.
        self.final_norms = {
            side: make_norm(hparams.norm_type, hparams.norm_epsilon, name=f"{side}_norm", dtype=policy)
            for side in (("encoder", "decoder") if hparams.norm_position == "pre" else ())
        }

    def _make_embeddings(self, policy: keras.DTypePolicy) -> None:
        hparams = self.hparams

        def make(vocab_size: int, name: str, use_bias: bool = False) -> Embedding:
            how = (hparams.zero_padding_embedding, hparams.scaled_embeddings, use_bias and hparams.projection_biases)
            return Embedding(vocab_size, hparams.hidden_size, *how, name=name, dtype=policy)

        self.embedding = make(self.vocab_size, "embedding", use_bias=hparams.tied_embeddings != "none")
        self.inputs_embedding = self.projection = self.embedding
        if hparams.tied_embeddings != "all":
            self.inputs_embedding = make(self.inputs_vocab_size, "inputs_embedding")
        if hparams.tied_embeddings == "none":
            self.projection = make(self.vocab_size, "projection", use_bias=True)
        self.position_encodings = {side: position_encoding(hparams, side, policy) for side in ("inputs", "targets")}

    @property
    def max_positions(self) -> int | None:
        """See `Seq2SeqModel`; only encodings such as learned positions have a limit."""
        return self.hparams.max_positions

    @property
    def alignment_layer(self) -> int:
        """See `Seq2SeqModel`; if not measured, the second-to-last (Garg et al. 2019, arXiv 1909.02074, section 3)."""
        measured = self.measured_alignment_layer
        return max(0, len(self.decoder_layers) - 2) if measured is None else measured

    def build(self, input_shape: object = None) -> None:
        """Creates all weights. They do not depend on `input_shape`."""
        for part in dict.fromkeys((self.embedding, self.inputs_embedding, self.projection)):
            part.build((None, None))
        dropouts = (self.token_dropout, self.embedding_dropout)
        layers = (*self.position_encodings.values(), *self.encoder_layers, *self.decoder_layers)
        for layer in (*dropouts, *layers, *self.final_norms.values()):
            layer.build((None, None, self.hparams.hidden_size))
        self.built = True

    def call(
        self, inputs: Array, targets: Array | None = None, seeds: Seeds | None = None, training: bool | None = None
    ) -> Array:
        """Returns the logits, float [batch, target length, vocab]."""
        inputs, targets = as_pair(inputs, targets)
        return self._logits(self._decoded(inputs, targets, self.seeds_for(seeds, training)))

    def factors_of_logits(self, inputs: Array, targets: Array, seeds: Seeds | None) -> tuple[Array, Array] | None:
        """See `Seq2SeqModel`; None without `logits_are_product`."""
        if not self.logits_are_product:
            return None
        x, weight = self._normalized(self._decoded(inputs, targets, seeds)), self.projection.weight
        if not self.projection.use_bias:
            return x, weight
        bias = ops.convert_to_tensor(self.projection.bias)[:, None]  # times a channel of ones
        return ops.pad(x, ((0, 0), (0, 0), (0, 1)), constant_values=1), ops.concatenate([weight, bias], axis=1)

    @property
    def logits_are_product(self) -> bool:
        """Whether `call` returns the usual product: no subclass or other projection computes the logits differently."""
        kind = type(self)
        is_ours = kind.call is Transformer.call and kind._logits is Transformer._logits
        return is_ours and type(self.projection).logits is Embedding.logits

    def freeze(self) -> None:
        """See `Seq2SeqModel`."""
        self.projection.freeze()

    def unfreeze(self) -> None:
        """See `Seq2SeqModel`."""
        self.projection.unfreeze()

    def start_decoding(self, inputs: Array, beam_size: int, max_length: int | Array) -> tuple[State, State]:
        """Returns (`EncodedSource`, `DecoderState`), see `Seq2SeqModel`."""
        encoded_source = self._encoded_source(self.encode(inputs, self._source_mask(inputs), None), inputs)
        batch = ops.shape(inputs)[0]
        caches = [layer.self_attention.start_cache(batch, beam_size, max_length) for layer in self.decoder_layers]
        return encoded_source, DecoderState(caches)

    def grow_state(self, state: State, beam_size: int, max_length: int | Array) -> State:
        """Returns the state with larger caches, see `Seq2SeqModel`."""
        layers = [layer.self_attention for layer in self.decoder_layers]
        caches = [layer.grow_cache(cache, beam_size, max_length) for layer, cache in zip(layers, state.caches)]
        return state._replace(caches=caches)

    @property
    def can_compact(self) -> bool:
        """Whether all self-attention layers have `compact_cache`."""
        return all(_compacts(type(layer.self_attention)) for layer in self.decoder_layers)

    def compact_state(self, state: State, kept: Array) -> State:
        """Returns the state with only some cache entries, see `Seq2SeqModel`."""
        layers: list[Any] = [layer.self_attention for layer in self.decoder_layers]
        return state._replace(caches=[layer.compact_cache(cache, kept) for layer, cache in zip(layers, state.caches)])

    def decode_step(
        self, ids: Array, position: int | Array, encoded_source: State, state: State, ancestry: BeamAncestry
    ) -> tuple[Array, State, Array]:
        """Returns (logits, state, attention of `alignment_layer`), see `Seq2SeqModel`."""
        x = self.position_encodings["targets"].step(self.embedding(ids), position)  # [batch, beam, hidden]
        return self._step(x, position, encoded_source, state, ancestry)

    def attention(self, inputs: Array, targets: Array, kind: str, layer: int) -> Array:
        """Returns the attention weights of one layer, see `Seq2SeqModel`."""
        layers = self.encoder_layers if kind == "encoder" else self.decoder_layers
        if not -len(layers) <= layer < len(layers):
            raise ValueError(f"there is no layer {layer}: {kind} attention has layers 0 to {len(layers) - 1}")
        chosen = layers[layer]
        self_attention: Any = chosen.self_attention
        if kind != "cross" and not hasattr(self_attention, "attention"):
            raise ValueError(f"self_attention_type={self.hparams.self_attention_type} has no attention weights")
        source_mask = self._source_mask(inputs)
        if kind == "encoder":
            x = self._embed(inputs, "inputs", None)
            for below in layers[: layers.index(chosen)]:
                x = below(x, source_mask)
            return self_attention.attention(chosen.self_attention_residual.before(x), source_mask)
        encoded = self.encode(inputs, source_mask, None)
        x = self._embed_targets(shift_right(targets), encoded, inputs, None)
        for below in layers[: layers.index(chosen)]:
            x = below(x, below.cross_keys_values(encoded), source_mask).x
        if kind == "decoder":
            return self_attention.attention(chosen.self_attention_residual.before(x))
        queries = chosen.cross_queries(chosen.after_self_attention(x)[0])
        return chosen.cross_attention.attention_to(queries, chosen.cross_keys_values(encoded)[0], source_mask)

    def attention_layers(self) -> dict[str, int]:
        """Returns the number of layers by kind of attention, see `Seq2SeqModel`."""
        sides = {"encoder": self.encoder_layers, "decoder": self.decoder_layers}
        having = {
            side: [hasattr(each.self_attention, "attention") for each in layers] for side, layers in sides.items()
        }
        having["cross"] = [hasattr(layer, "cross_attention") for layer in self.decoder_layers]
        return {kind: len(layers) for kind, layers in having.items() if layers and all(layers)}

    def encode(self, inputs: Array, mask: Array, seeds: Seeds | None = None) -> Array:
        """Returns the encoder's output, float [batch, source, hidden].

        Args:
          inputs, seeds: see `call`.
          mask: bool [batch, 1, 1, source], True = a token, not padding.
        """
        x = self._embed(inputs, "inputs", seeds)
        for layer in self.encoder_layers:
            x = layer(x, mask, seeds=seeds)
        return self.final_norms["encoder"](x) if self.final_norms else x

    def _source_mask(self, inputs: Array) -> Array:
        """Returns the mask that hides padding in the encoder's output, bool [batch, 1, 1, source]."""
        return self.is_source_token(inputs)[:, None, None, :]

    def is_source_token(self, inputs: Array) -> Array:
        """See `Seq2SeqModel`; without `source_end_symbol`, False for end symbols of lines that have other tokens."""
        seen = super().is_source_token(inputs)
        if self.hparams.source_end_symbol:
            return seen
        is_first = ops.arange(ops.shape(inputs)[1]) == 0
        return ops.logical_and(seen, ops.logical_or(inputs != END, is_first))

    def _encoded_source(self, encoded: Array, inputs: Array) -> EncodedSource:
        """Returns the `EncodedSource`: the encoder's output, projected to each decoder layer's keys and values."""
        caches = [Cache.of(*layer.cross_keys_values(encoded)) for layer in self.decoder_layers]
        return EncodedSource(caches, self._source_mask(inputs))

    def _step(
        self, x: Array, position: int | Array, encoded_source: State, state: State, ancestry: BeamAncestry
    ) -> tuple[Array, State, Array]:
        """Runs the decoder layers on the newest position, float [batch, beam, hidden]. Returns: see `decode_step`."""
        outputs, position = [], ops.convert_to_tensor(position, "int32")
        for layer, cross_cache, cache in zip(self.decoder_layers, encoded_source.caches, state.caches):
            stepping = Stepping(position, cache, ancestry)
            outputs.append(layer(x, cross_cache.keys_values, encoded_source.source_mask, stepping=stepping))
            x = outputs[-1].x
        attention = ops.mean(outputs[self.alignment_layer].attention, axis=1)
        return self._logits(x), state._replace(caches=[output.cache for output in outputs]), attention

    def _decoded(self, inputs: Array, targets: Array, seeds: Seeds | None) -> Array:
        """Returns the output of the last decoder layer, float [batch, target length, hidden]."""
        source_mask = self._source_mask(inputs)
        encoded = self.encode(inputs, source_mask, seeds)
        x = self._embed_targets(shift_right(targets), encoded, inputs, seeds)
        for layer in self.decoder_layers:
            x = layer(x, layer.cross_keys_values(encoded), source_mask, seeds=seeds).x
        return x

    def _logits(self, x: Array) -> Array:
        return self.projection.logits(self._normalized(x))

    def _normalized(self, x: Array) -> Array:
        return self.final_norms["decoder"](x) if self.final_norms else x

    def _embed_targets(self, ids: Array, encoded: Array, inputs: Array, seeds: Seeds | None) -> Array:
        """Embeds the decoder's inputs, int [batch, length]. Subclasses may add information from the source."""
        del encoded, inputs
        return self._embed(ids, "targets", seeds)

    def _embed(self, ids: Array, side: str, seeds: Seeds | None, added: Array | None = None) -> Array:
        """Embeds whole sequences, int [batch, length], of a side, "inputs" or "targets", with positional encoding.

        `added`, float [batch, length, hidden] or None, is added before dropout.
        """
        x = self._token_vectors(ids, side, seeds)
        x = self.position_encodings[side](x, length=ops.shape(x)[1])
        if added is not None:
            x = x + added
        return self.embedding_dropout(x, seeds=seeds)

    def _token_vectors(self, ids: Array, side: str, seeds: Seeds | None) -> Array:
        """Returns the embeddings of tokens, float [batch, length, hidden]. Subclasses may combine several tokens."""
        x = (self.inputs_embedding if side == "inputs" else self.embedding)(ids)
        if self.token_dropout.rate:
            x = x * self.token_dropout(ops.ones_like(x[:, :, :1]), seeds=seeds)
        return x


def shift_right(targets: Array) -> Array:
    """Shifts int [batch, length] right by one; 0 is the start symbol."""
    return ops.pad(targets[:, :-1], ((0, 0), (1, 0)))


def _compacts(self_attention: type) -> bool:
    """Returns whether a class has `compact_cache` for its `step`. A subclass with its own `step` must define it too."""
    classes = self_attention.__mro__
    of_step = next((number for number, each in enumerate(classes) if "step" in vars(each)), -1)
    return any("compact_cache" in vars(each) for each in classes[: of_step + 1])
