"""Position-wise feed-forward network."""

import keras
from keras import ops


class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, equation 2 of the paper.

    Args:
      hidden_size: width of input and output, d_model.
      filter_size: width between the two products, d_ff.

    Call arguments:
      x: float [batch, length, hidden].
    """

    def __init__(self, hidden_size, filter_size, **kwargs):
        super().__init__(**kwargs)
        self.expand = keras.layers.Dense(filter_size, activation="relu", name="expand", dtype=self.dtype_policy)
        self.project = keras.layers.Dense(hidden_size, name="project", dtype=self.dtype_policy)

    def build(self, input_shape):
        """Makes the weights for inputs of the given shape."""
        self.expand.build(input_shape)
        self.project.build((*input_shape[:-1], self.expand.units))

    def call(self, x):
        """Returns float [batch, length, hidden]."""
        return ops.reshape(self.project(self.expand(ops.reshape(x, (-1, x.shape[-1])))), ops.shape(x))
