"""The Transformer (section 3 of the paper)."""

from typing import Any, NamedTuple

from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.embedding import SharedEmbedding
from t2t_lite.layers.masks import causal_mask, padding_mask, visible_up_to
from t2t_lite.layers.positions import sinusoids
from t2t_lite.layers.transformer import DecoderLayer, EncoderLayer
from t2t_lite.models.base import Seq2SeqModel


class Memory(NamedTuple):
    """What the decoder knows of the source."""

    keys_values: list  # for each decoder layer a pair of float [batch, heads, source, depth]
    source_mask: Any  # bool [batch, 1, 1, source], True = a piece


class Transformer(Seq2SeqModel):
    """Encoder-decoder with attention only. See `Seq2SeqModel` for its methods.

    Args:
      hparams: the settings, an `HParams`.
      vocab_size: number of pieces, of both sides.
    """

    def __init__(self, hparams, vocab_size, **kwargs):
        super().__init__(hparams, vocab_size, dtype=hparams.precision, **kwargs)
        policy = self.dtype_policy
        sizes = (hparams.hidden_size, hparams.filter_size, hparams.num_heads, hparams.residual_dropout)
        self.embedding = SharedEmbedding(vocab_size, hparams.hidden_size, name="embedding", dtype=policy)
        self.embedding_dropout = Dropout(hparams.residual_dropout, name="embedding_dropout", dtype=policy)
        self.encoder_layers = [
            EncoderLayer(*sizes, name=f"encoder_{i}", dtype=policy) for i in range(hparams.num_encoder_layers)
        ]
        self.decoder_layers = [
            DecoderLayer(*sizes, name=f"decoder_{i}", dtype=policy) for i in range(hparams.num_decoder_layers)
        ]

    def build(self, input_shape=None):
        """Makes all weights. Nothing of them depends on the shape of a batch."""
        self.embedding.build(None)
        for layer in (*self.encoder_layers, *self.decoder_layers):
            layer.build((None, None, self.hparams.hidden_size))
        self.built = True

    def call(self, inputs, targets, seeds=None):
        """Returns the logits, float [batch, target length, vocab]."""
        source_mask = padding_mask(inputs)
        encoded = self._encode(inputs, source_mask, seeds)
        before = ops.pad(targets[:, :-1], ((0, 0), (1, 0)))  # shifted right by one; 0 stands for the start
        length = ops.shape(targets)[1]
        x = self._embed(before, ops.arange(length), seeds)
        mask = causal_mask(length)
        for layer in self.decoder_layers:
            x, _ = layer(x, mask, layer.memory_of(encoded), source_mask, seeds=seeds)
        return self.embedding.logits(x)

    def start_decoding(self, inputs, beam_size, max_length):
        """Returns (memory, caches), see `Seq2SeqModel`."""
        source_mask = padding_mask(inputs)
        encoded = self._encode(inputs, source_mask, None)
        memory = Memory([layer.memory_of(encoded) for layer in self.decoder_layers], source_mask)
        hparams = self.hparams
        depth = hparams.hidden_size // hparams.num_heads
        empty = ops.zeros((ops.shape(inputs)[0] * beam_size, hparams.num_heads, max_length, depth), self.compute_dtype)
        return memory, [(empty, empty) for _ in self.decoder_layers]

    def decode_step(self, ids, position, memory, caches):
        """Returns (logits, caches), see `Seq2SeqModel`."""
        positions = ops.reshape(position, (1,))
        x = self._embed(ids[:, None], positions, None)  # [rows, 1, hidden]
        mask = visible_up_to(positions, ops.shape(caches[0][0])[2])
        new_caches = []
        for layer, keys_values, cache in zip(self.decoder_layers, memory.keys_values, caches):
            x, cache = layer(x, mask, keys_values, memory.source_mask, cache=cache, position=position)
            new_caches.append(cache)
        return self.embedding.logits(x)[:, 0, :], new_caches

    def _encode(self, inputs, mask, seeds):
        x = self._embed(inputs, ops.arange(ops.shape(inputs)[1]), seeds)
        for layer in self.encoder_layers:
            x = layer(x, mask, seeds=seeds)
        return x

    def _embed(self, ids, positions, seeds):
        x = self.embedding(ids)
        x = x + ops.cast(sinusoids(positions, self.hparams.hidden_size), x.dtype)
        return self.embedding_dropout(x, seeds=seeds)
