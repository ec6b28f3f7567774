"""The Transformer (section 3 of the paper)."""

from typing import Any, NamedTuple

from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.masks import padding_mask
from t2t_lite.layers.positions import LearnedPositions, sinusoidal_halves, sinusoids
from t2t_lite.layers.transformer import make_norm
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.sublayers import decoder_layer, encoder_layer

_SINUSOIDS = {"sinusoidal": sinusoids, "sinusoidal_halves": sinusoidal_halves}


class Memory(NamedTuple):
    """What the decoder knows of the source."""

    keys_values: list  # for each decoder layer a pair of float [batch, heads, source, depth]
    source_mask: Any  # bool [batch, 1, 1, source], True = a piece


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
        before = ops.pad(targets[:, :-1], ((0, 0), (1, 0)))  # shifted right by one; 0 stands for the start
        x = self._embed_all(before, "targets", seeds)
        for layer in self.decoder_layers:
            x, _ = layer(x, layer.memory_of(encoded), source_mask, seeds=seeds)
        return self._logits(x)

    def start_decoding(self, inputs, beam_size, max_length):
        """Returns (memory, caches), see `Seq2SeqModel`."""
        source_mask = padding_mask(inputs)
        encoded = self._encode(inputs, source_mask, None)
        memory = Memory([layer.memory_of(encoded) for layer in self.decoder_layers], source_mask)
        rows = ops.shape(inputs)[0] * beam_size
        return memory, [layer.self_attention.start_cache(rows, max_length) for layer in self.decoder_layers]

    def decode_step(self, ids, position, memory, caches):
        """Returns (logits, caches), see `Seq2SeqModel`."""
        x = self.embedding(ids[:, None])  # [rows, 1, hidden]
        if self.learned_positions:
            x = x + self.learned_positions["targets"].at(position)
        else:
            x = self._add_sinusoids(x, ops.reshape(position, (1,)))
        new_caches = []
        for layer, keys_values, cache in zip(self.decoder_layers, memory.keys_values, caches):
            x, cache = layer(x, keys_values, memory.source_mask, cache=cache, position=position)
            new_caches.append(cache)
        return self._logits(x)[:, 0, :], new_caches

    def _encode(self, inputs, mask, seeds):
        x = self._embed_all(inputs, "inputs", seeds)
        for layer in self.encoder_layers:
            x = layer(x, mask, seeds=seeds)
        return self.final_norms["encoder"](x) if self.final_norms else x

    def _logits(self, x):
        return self.projection.logits(self.final_norms["decoder"](x) if self.final_norms else x)

    def _embed_all(self, ids, side, seeds):
        """Embeds whole sequences, int [batch, length] of the side "inputs" or "targets", with their positions."""
        x = (self.inputs_embedding if side == "inputs" else self.embedding)(ids)
        length = ops.shape(ids)[1]
        if self.learned_positions:
            x = x + self.learned_positions[side].first(length)
        else:
            x = self._add_sinusoids(x, ops.arange(length))
        return self.embedding_dropout(x, seeds=seeds)

    def _add_sinusoids(self, x, positions):
        """Adds the encoding of int positions [length] if it is one that embeddings have added."""
        encode = _SINUSOIDS.get(self.hparams.position_encoding)
        return x + ops.cast(encode(positions, self.hparams.hidden_size), x.dtype) if encode else x
