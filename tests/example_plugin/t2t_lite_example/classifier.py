"""An encoder-only classifier: the encoder's outputs, averaged over the tokens, give the label."""

import keras
from keras import ops

from t2t_lite.data.vocab import EOS_ID
from t2t_lite.layers import Dropout, Embedding
from t2t_lite.layers.masks import padding_mask
from t2t_lite.models.base import Seq2SeqModel, as_pair
from t2t_lite.models.sublayers import encoder_layer, position_encoding

CERTAIN = 30.0  # the logit of the end symbol, which follows every label


@keras.saving.register_keras_serializable(package="t2t_lite_example")
class TextClassifier(Seq2SeqModel):
    """num_encoder_layers layers; the target is one token, the label, and the end symbol."""

    def __init__(self, hparams, vocab_size, inputs_vocab_size=None, dtype=None, **kwargs):
        super().__init__(hparams, vocab_size, inputs_vocab_size, dtype, **kwargs)
        hparams, policy = self.hparams, self.dtype_policy
        self.embedding = Embedding(self.inputs_vocab_size, hparams.hidden_size, name="embedding", dtype=policy)
        self.positions = position_encoding(hparams, "inputs", policy)
        self.embedding_dropout = Dropout(hparams.residual_dropout, name="embedding_dropout", dtype=policy)
        self.blocks = [encoder_layer(hparams, index, policy) for index in range(hparams.num_encoder_layers)]
        self.labels = keras.layers.Dense(vocab_size, name="labels", dtype=policy)

    def build(self, input_shape=None):
        """Creates all weights."""
        self.embedding.build((None, None))
        for layer in (self.positions, self.embedding_dropout, *self.blocks, self.labels):
            layer.build((None, None, self.hparams.hidden_size))
        self.built = True

    def call(self, inputs, targets=None, seeds=None, training=None):
        """Returns the logits, float [batch, target length, vocab]: of the label, and then of the end symbol."""
        inputs, targets = as_pair(inputs, targets)
        first = ops.arange(ops.shape(targets)[1]) == 0
        return self._logits(self._pooled(inputs, self.seeds_for(seeds, training))[:, None], first[None, :, None])

    def start_decoding(self, inputs, beam_size, max_length):
        """Returns (the pooled encoding, float [batch, hidden]; no state)."""
        return self._pooled(inputs, None), ()

    def grow_state(self, state, beam_size, max_length):
        """Returns the state, which is empty."""
        return state

    def decode_step(self, ids, position, encoded_source, state, ancestry):
        """Returns (logits, the empty state, None)."""
        first = ops.reshape(ops.equal(position, 0), (1, 1, 1))
        logits = self._logits(encoded_source[:, None], first)
        return logits + ops.zeros((*ops.shape(ids), 1), logits.dtype), state, None

    def _pooled(self, inputs, seeds):
        mask = padding_mask(inputs)
        x = self.embedding_dropout(self.positions(self.embedding(inputs)), seeds=seeds)
        for block in self.blocks:
            x = block(x, mask, seeds=seeds)
        weights = ops.cast(inputs != 0, x.dtype)[:, :, None]
        return ops.sum(x * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1)

    def _logits(self, pooled, is_first):
        """Returns the logits of labels, of [batch, 1, hidden], where `is_first`, and else of the end symbol."""
        labels = self.labels(pooled)
        return ops.where(is_first, labels, CERTAIN * ops.one_hot(EOS_ID, self.vocab_size, dtype=labels.dtype))
