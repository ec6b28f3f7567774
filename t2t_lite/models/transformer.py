"""The Transformer (section 3 of the paper)."""

from typing import Any, NamedTuple

from keras import ops

from t2t_lite.layers.beam_ancestry import follow
from t2t_lite.layers.cache import Cache
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.masks import padding_mask
from t2t_lite.layers.positions import LearnedPositions, sinusoidal_halves, sinusoids
from t2t_lite.layers.transformer import Stepping, make_norm
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.sublayers import decoder_layer, encoder_layer

_SINUSOIDS = {"sinusoidal": sinusoids, "sinusoidal_halves": sinusoidal_halves}


class Memory(NamedTuple):
    """What the decoder knows of the source."""

    caches: list  # for each decoder layer the `Cache` of the encoder's output, [batch, heads, source, depth]
    source_mask: Any  # bool [batch, 1, 1, source], True = a piece
    encoded: Any = ()  # float [batch, source, hidden], the encoder's output, if places in the source are counted


class Transformer(Seq2SeqModel):
    """Encoder-decoder with attention only. See `Seq2SeqModel` for its arguments and methods."""

    def __init__(self, hparams, vocab_size, inputs_vocab_size=None, **kwargs):
        super().__init__(hparams, vocab_size, inputs_vocab_size, dtype=hparams.precision, **kwargs)
        policy = self.dtype_policy
        self._make_embeddings(policy)
        self.embedding_dropout = Dropout(hparams.residual_dropout, name="embedding_dropout", dtype=policy)
        self.encoder_layers = [encoder_layer(hparams, i, policy) for i in range(hparams.num_encoder_layers)]
        self.decoder_layers = [decoder_layer(hparams, i, policy) for i in range(hparams.num_decoder_layers)]
        # With norms before the sub-layers, nothing has normalized the sum of them all yet.
        self.final_norms = {}
        if hparams.norm_position == "pre":
            self.final_norms = {
                side: make_norm(hparams.norm_type, name=f"{side}_norm", dtype=policy) for side in ("encoder", "decoder")
            }

    def _make_embeddings(self, policy):
        hparams = self.hparams

        def make(vocab_size, name):
            return Embedding(vocab_size, hparams.hidden_size, name=name, dtype=policy)

        self.embedding = self.inputs_embedding = self.projection = make(self.vocab_size, "embedding")
        if hparams.tied_embeddings != "all":
            self.inputs_embedding = make(self.inputs_vocab_size, "inputs_embedding")
        if hparams.tied_embeddings == "none":
            self.projection = make(self.vocab_size, "projection")
        self.learned_positions = {}
        if hparams.position_encoding == "learned":
            self.learned_positions = {
                side: LearnedPositions(hparams.max_length, hparams.hidden_size, name=f"{side}_positions", dtype=policy)
                for side in ("inputs", "targets")
            }

    @property
    def max_positions(self):
        """See `Seq2SeqModel`: only learned positions have an end."""
        return self.hparams.max_positions

    @property
    def alignment_layer(self):
        """See `Seq2SeqModel`: the last but one (Garg et al. 2019, arXiv 1909.02074, section 3)."""
        return max(0, len(self.decoder_layers) - 2)

    def build(self, input_shape=None):
        """Makes all weights. Nothing of them depends on the shape of a batch."""
        for part in dict.fromkeys((self.embedding, self.inputs_embedding, self.projection)):
            part.build(None)
        for layer in (
            *self.learned_positions.values(),
            *self.encoder_layers,
            *self.decoder_layers,
            *self.final_norms.values(),
        ):
            layer.build((None, None, self.hparams.hidden_size))
        self.built = True

    def call(self, inputs, targets, seeds=None):
        """Returns the logits, float [batch, target length, vocab]."""
        source_mask = padding_mask(inputs)
        encoded = self._encode(inputs, source_mask, seeds)
        x = self._embed_all(_shifted(targets), "targets", seeds, (encoded, source_mask))
        for layer in self.decoder_layers:
            x = layer(x, layer.memory_of(encoded), source_mask, seeds=seeds).x
        return self._logits(x)

    def freeze(self):
        """See `Seq2SeqModel`."""
        self.projection.freeze()

    def start_decoding(self, inputs, beam_size, max_length):
        """Returns (memory, caches), see `Seq2SeqModel`."""
        source_mask = padding_mask(inputs)
        encoded = self._encode(inputs, source_mask, None)
        of_source = [Cache.of(*layer.memory_of(encoded)) for layer in self.decoder_layers]
        memory = Memory(of_source, source_mask, encoded if self.hparams.counted_piece else ())
        batch = ops.shape(inputs)[0]
        layers = [layer.self_attention for layer in self.decoder_layers]
        caches = [layer.start_cache(batch, beam_size, max_length) for layer in layers]
        if self.hparams.counted_piece:
            caches.append(ops.zeros((batch, beam_size), "int32"))
        return memory, caches

    def grow_caches(self, caches, beam_size, max_length):
        """Returns larger caches, see `Seq2SeqModel`."""
        layers = [layer.self_attention for layer in self.decoder_layers]
        grown = [layer.grow_cache(cache, beam_size, max_length) for layer, cache in zip(layers, caches)]
        return [*grown, *caches[len(layers) :]]

    def decode_step(self, ids, position, memory, caches, lineage):
        """Returns (logits, caches, attention), see `Seq2SeqModel`; the attention is that of `alignment_layer`."""
        x, counts = self.embedding(ids), []  # [batch, beam, hidden]
        for count in caches[len(self.decoder_layers) :]:
            counts.append(follow(count, lineage) + self._is_counted(ids))
            x = x + _places(memory.encoded, memory.source_mask, counts[-1])
        if self.learned_positions:
            x = x + self.learned_positions["targets"].at(position)
        else:
            x = self._add_sinusoids(x, ops.reshape(position, (1,)))
        outputs, position = [], ops.convert_to_tensor(position, "int32")
        for layer, of_source, cache in zip(self.decoder_layers, memory.caches, caches):
            outputs.append(
                layer(x, of_source.keys_values, memory.source_mask, stepping=Stepping(position, cache, lineage))
            )
            x = outputs[-1].x
        attention = outputs[self.alignment_layer].attention
        caches = [output.cache for output in outputs] + counts
        return self._logits(x), caches, ops.mean(attention, axis=1)

    def attention(self, inputs, targets, kind, layer):
        """Returns the attention weights of one layer, see `Seq2SeqModel`."""
        layers = self.encoder_layers if kind == "encoder" else self.decoder_layers
        if not -len(layers) <= layer < len(layers):
            raise ValueError(f"there is no layer {layer}: {kind} attention has layers 0 to {len(layers) - 1}")
        chosen = layers[layer]
        if kind != "memory" and not hasattr(chosen.self_attention, "attention"):
            raise ValueError(f"self_attention_type={self.hparams.self_attention_type} has no attention weights")
        source_mask = padding_mask(inputs)
        if kind == "encoder":
            x = self._embed_all(inputs, "inputs", None)
            for below in layers[: layers.index(chosen)]:
                x = below(x, source_mask)
            return chosen.self_attention.attention(chosen.self_attention_residual.before(x), source_mask)
        encoded = self._encode(inputs, source_mask, None)
        x = self._embed_all(_shifted(targets), "targets", None, (encoded, source_mask))
        for below in layers[: layers.index(chosen)]:
            x = below(x, below.memory_of(encoded), source_mask).x
        if kind == "decoder":
            return chosen.self_attention.attention(chosen.self_attention_residual.before(x))
        queries = chosen.memory_queries(chosen.after_self_attention(x)[0])
        return chosen.memory_attention.attention_to(queries, chosen.memory_of(encoded)[0], source_mask)

    def _encode(self, inputs, mask, seeds):
        x = self._embed_all(inputs, "inputs", seeds)
        for layer in self.encoder_layers:
            x = layer(x, mask, seeds=seeds)
        return self.final_norms["encoder"](x) if self.final_norms else x

    def _logits(self, x):
        return self.projection.logits(self.final_norms["decoder"](x) if self.final_norms else x)

    def _embed_all(self, ids, side, seeds, source=None):
        """Embeds whole sequences, int [batch, length] of the side "inputs" or "targets", with their positions.

        With a counted piece, targets have the encoder's output at the place that they have got to, too; `source` is
        that output and its mask.
        """
        x = (self.inputs_embedding if side == "inputs" else self.embedding)(ids)
        length = ops.shape(ids)[1]
        if self.learned_positions:
            x = x + self.learned_positions[side].first(length)
        else:
            x = self._add_sinusoids(x, ops.arange(length))
        if source and self.hparams.counted_piece:
            x = x + _places(*source, ops.cumsum(self._is_counted(ids), axis=1))
        return self.embedding_dropout(x, seeds=seeds)

    def _add_sinusoids(self, x, positions):
        """Adds the encoding of int positions [length] if it is one that embeddings have added."""
        encode = _SINUSOIDS.get(self.hparams.position_encoding)
        return x + ops.cast(encode(positions, self.hparams.hidden_size), x.dtype) if encode else x

    def _is_counted(self, ids):
        return ops.cast(ids == self.hparams.counted_piece, "int32")


def _shifted(targets):
    """Shifts int [batch, length] right by one; 0 stands for the start."""
    return ops.pad(targets[:, :-1], ((0, 0), (1, 0)))


def _places(encoded, source_mask, counts):
    """Returns the encoder's output at places in the source (Ma et al. 2017, "Deterministic Attention").

    Args:
      encoded: float [batch, source, hidden].
      source_mask: bool [batch, 1, 1, source], True = a piece.
      counts: int [batch, length], how many pieces of the source are done with: the place of the next one. After the
        source's last piece, the end symbol, it is that.

    Returns:
      float [batch, length, hidden].
    """
    last = ops.sum(ops.cast(source_mask[:, 0, 0], "int32"), axis=1, keepdims=True) - 1
    places = ops.clip(counts, 0, ops.maximum(last, 0))
    return ops.take_along_axis(encoded, places[:, :, None], axis=1)
