"""A model of one's own: any `Seq2SeqModel`; here the Transformer with one thing changed."""

import keras
from keras import ops

from t2t_lite.models.base import as_pair
from t2t_lite.models.transformer import Transformer


@keras.saving.register_keras_serializable(package="t2t_lite_example")
class BackwardTransformer(Transformer):
    """Reads the source backwards (Sutskever et al. 2014, section 3.3)."""

    def call(self, inputs, targets=None, seeds=None, training=None):
        """Returns the logits, float [batch, target length, vocab]."""
        inputs, targets = as_pair(inputs, targets)
        return super().call(_backwards(inputs), targets, seeds, training)

    def start_decoding(self, inputs, beam_size, max_length):
        """Returns (encoded_source, state), see `Seq2SeqModel`."""
        return super().start_decoding(_backwards(inputs), beam_size, max_length)


def _backwards(ids):
    """Turns each row of int [batch, length] around, but for the padding at its end."""
    lengths = ops.sum(ops.cast(ids != 0, "int32"), axis=1, keepdims=True)
    places = ops.arange(ops.shape(ids)[1])[None, :]
    return ops.take_along_axis(ids, ops.where(places < lengths, lengths - 1 - places, places), axis=1)
