"""Token embeddings. The same matrix can serve both sides and project to logits (section 3.4 of the paper)."""

import keras

from t2t_lite.arrays import Array
from t2t_lite.layers.base import Layer, Shape
from t2t_lite.layers.ops import ops, take_rows


@keras.saving.register_keras_serializable(package="t2t_lite")
class Embedding(Layer):
    """Maps ids to vectors, and vectors to logits, with the same weight.

    Args:
      vocab_size: number of tokens.
      hidden_size: width of a vector.
      zero_padding: whether the vector of id 0 (padding and start symbol) is zero; the logits still use its row.
      scaled: whether to multiply vectors by sqrt(hidden_size), as in the paper.
      use_bias: whether the logits have a bias; the paper's have none.

    Call arguments:
      ids: int [batch, length].

    Example:

    >>> embedding = Embedding(vocab_size=100, hidden_size=8)
    >>> vectors = embedding(ops.array([[3, 4, 1], [5, 1, 0]]))
    >>> ops.shape(vectors), ops.shape(embedding.logits(vectors))
    ((2, 3, 8), (2, 3, 100))
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        zero_padding: bool = False,
        scaled: bool = True,
        use_bias: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.zero_padding = zero_padding
        self.scaled = scaled
        self.use_bias = use_bias
        self.scale = hidden_size**0.5 if scaled else 1.0
        self._frozen: Array | None = None

    def build(self, input_shape: Shape | None = None) -> None:
        """Creates the weight, float32 [vocab, hidden], and the bias, [vocab]. Scaled vectors have unit variance."""
        self.weight = self.add_weight(
            name="weight",
            shape=(self.vocab_size, self.hidden_size),
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_size**-0.5),
            autocast=False,  # a frequent token's gradient is a long sum, which needs float32
        )
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.vocab_size,), initializer="zeros", autocast=False)

    def call(self, ids: Array) -> Array:
        """Returns the vectors, float [batch, length, hidden]."""
        vectors = ops.cast(take_rows(self.weight, ids), self.compute_dtype)
        vectors = vectors * self.scale if self.scale != 1.0 else vectors
        return vectors * ops.cast(ids != 0, vectors.dtype)[..., None] if self.zero_padding else vectors

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Returns [batch, length, hidden]."""
        return (*input_shape, self.hidden_size)

    def freeze(self) -> None:
        """Caches the transposed matrix. Logits of a few vectors become 3 times as fast, but weights must not change."""
        self._frozen = self._for_logits()

    def unfreeze(self) -> None:
        """Discards the cache of `freeze`."""
        self._frozen = None

    def logits(self, x: Array) -> Array:
        """Maps float [batch, length, hidden] to logits [batch, length, vocab]."""
        self.build_once()
        flat = ops.reshape(x, (-1, self.hidden_size))
        product = ops.matmul(flat, self._for_logits() if self._frozen is None else self._frozen)
        if self.use_bias:
            product = product + ops.cast(self.bias, product.dtype)
        return ops.reshape(product, (*ops.shape(x)[:-1], self.vocab_size))

    def _for_logits(self) -> Array:
        return ops.transpose(ops.cast(self.weight, self.compute_dtype))
