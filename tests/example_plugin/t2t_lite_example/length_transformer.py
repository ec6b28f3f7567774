"""A model with a weight and settings of its own: the Transformer, told how long the source is."""

import keras
from keras import ops

from t2t_lite.models.transformer import Transformer


@keras.saving.register_keras_serializable(package="t2t_lite_example")
class LengthTransformer(Transformer):
    """Adds a learned vector for the length of the source to the encoder's output."""

    def build(self, input_shape=None):
        """Creates all weights."""
        super().build(input_shape)
        shape = (self.hparams.length_buckets, self.hparams.hidden_size)
        self.lengths = self.add_weight(name="lengths", shape=shape, initializer="random_normal")

    def encode(self, inputs, mask, seeds=None):
        """Returns the encoder's output, float [batch, source, hidden]."""
        length = ops.sum(ops.cast(inputs != 0, "int32"), axis=1)
        bucket = ops.minimum(length // self.hparams.bucket_width, self.hparams.length_buckets - 1)
        encoded = super().encode(inputs, mask, seeds)
        return encoded + ops.cast(ops.take(self.lengths, bucket, axis=0), encoded.dtype)[:, None]
