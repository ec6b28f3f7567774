"""A decoder-only language model: it reads no inputs, and predicts each token of a text from those before it."""

import keras

from t2t_lite.layers import Dropout, Embedding
from t2t_lite.layers.norm import make_norm
from t2t_lite.layers.transformer import EncoderLayer
from t2t_lite.models.base import Seq2SeqModel, as_pair
from t2t_lite.models.sublayers import encoder_layer, position_encoding
from t2t_lite.models.transformer import shift_right


@keras.saving.register_keras_serializable(package="t2t_lite_example")
class LanguageModel(Seq2SeqModel):
    """num_decoder_layers layers of causal self-attention and feed-forward network. The inputs are ignored."""

    def __init__(self, hparams, vocab_size, inputs_vocab_size=None, dtype=None, **kwargs):
        super().__init__(hparams, vocab_size, inputs_vocab_size, dtype, **kwargs)
        hparams, policy = self.hparams, self.dtype_policy
        self.embedding = Embedding(vocab_size, hparams.hidden_size, name="embedding", dtype=policy)
        self.positions = position_encoding(hparams, "targets", policy)
        self.embedding_dropout = Dropout(hparams.residual_dropout, name="embedding_dropout", dtype=policy)
        self.blocks = [
            encoder_layer(hparams, index, policy, causal=True, name="decoder")
            for index in range(hparams.num_decoder_layers)
        ]
        self.final_norm = make_norm(hparams.norm_type, name="final_norm", dtype=policy)

    @property
    def max_positions(self):
        """See `Seq2SeqModel`."""
        return self.hparams.max_positions

    def build(self, input_shape=None):
        """Creates all weights."""
        self.embedding.build((None, None))
        for layer in (self.positions, self.embedding_dropout, *self.blocks, self.final_norm):
            layer.build((None, None, self.hparams.hidden_size))
        self.built = True

    def call(self, inputs, targets=None, seeds=None, training=None):
        """Returns the logits, float [batch, target length, vocab]."""
        _, targets = as_pair(inputs, targets)
        seeds = self.seeds_for(seeds, training)
        x = self.embedding_dropout(self.positions(self.embedding(shift_right(targets))), seeds=seeds)
        for block in self.blocks:
            x = block(x, None, seeds=seeds)
        return self.embedding.logits(self.final_norm(x))

    def start_decoding(self, inputs, beam_size, max_length):
        """Returns ((), the caches of all layers)."""
        batch = keras.ops.shape(inputs)[0]
        return (), [block.self_attention.start_cache(batch, beam_size, max_length) for block in self.blocks]

    def grow_state(self, state, beam_size, max_length):
        """Returns larger caches."""
        return [
            block.self_attention.grow_cache(cache, beam_size, max_length) for block, cache in zip(self.blocks, state)
        ]

    def decode_step(self, ids, position, encoded_source, state, ancestry):
        """Returns (logits, the caches, None)."""
        x, caches = self.positions.step(self.embedding(ids), position), []
        for block, cache in zip(self.blocks, state):
            x, cache = _step(block, x, keras.ops.convert_to_tensor(position, "int32"), cache, ancestry)
            caches.append(cache)
        return self.embedding.logits(self.final_norm(x)), caches, None


def _step(block: EncoderLayer, x, position, cache, ancestry):
    y, cache = block.self_attention.step(block.self_attention_residual.before(x), position, cache, ancestry)
    x = block.self_attention_residual(x, y)
    return block.feed_forward_residual(x, block.feed_forward(block.feed_forward_residual.before(x))), cache
