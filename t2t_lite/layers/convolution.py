"""Convolutions over positions, a replacement for self-attention (table 1 of the paper)."""

import keras

from t2t_lite.arrays import Array
from t2t_lite.layers.base import Layer, Shape
from t2t_lite.layers.beam_ancestry import BeamAncestry, gather_parents
from t2t_lite.layers.dropout import Seeds
from t2t_lite.layers.ops import ops


@keras.saving.register_keras_serializable(package="t2t_lite")
class Convolution(Layer):
    """A convolution over positions, plain or separable.

    Args:
      hidden_size: width of input and output.
      causal: whether a position sees only itself and earlier ones; otherwise the window is centered.
      kernel_size: k, odd: number of positions in the window.
      separable: whether to convolve each channel separately and then mix the channels with a matrix (Chollet 2016).
      dilation: distance between neighboring positions of the window; with dilations that grow from layer to layer, the
        path between any two positions is O(log_k n) layers long (Kalchbrenner et al. 2016).

    Call arguments and methods: see `SelfAttention`.

    Example:

    >>> convolution = Convolution(hidden_size=8, causal=True, kernel_size=3)
    >>> ops.shape(convolution(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    def __init__(
        self,
        hidden_size: int,
        causal: bool,
        kernel_size: int,
        separable: bool = False,
        dilation: int = 1,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.causal = causal
        self.kernel_size = kernel_size
        self.separable = separable
        self.dilation = dilation
        self.reach = (kernel_size - 1) * dilation  # distance between the first and the last position of the window
        kind = keras.layers.SeparableConv1D if separable else keras.layers.Conv1D
        self.convolution = kind(
            hidden_size, kernel_size, dilation_rate=dilation, name="convolution", dtype=self.dtype_policy
        )

    def build(self, input_shape: Shape) -> None:
        """Creates kernel and bias."""
        self.convolution.build(input_shape)

    def call(self, x: Array, padding_mask: Array | None = None, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        if padding_mask is not None:
            x = x * ops.cast(ops.swapaxes(padding_mask[:, 0], 1, 2), x.dtype)
        after = 0 if self.causal else self.reach // 2
        return self.convolution(ops.pad(x, ((0, 0), (self.reach - after, after), (0, 0))))

    def start_cache(self, batch: int | Array, beam_size: int, max_length: int | Array) -> Array:
        """Returns the inputs before the first position, zeros: float [batch, beam, reach, hidden]."""
        return ops.zeros((batch, beam_size, self.reach, self.hidden_size), self.compute_dtype)

    def grow_cache(self, cache: Array, beam_size: int, max_length: int | Array) -> Array:
        """Returns the cache unchanged: its size does not depend on the length."""
        return cache

    def step(self, x: Array, position: int | Array, cache: Array, ancestry: BeamAncestry) -> tuple[Array, Array]:
        """Returns (float [batch, beam, hidden], the last `reach` inputs), see `SelfAttention`."""
        window = ops.concatenate([gather_parents(cache, ancestry), ops.cast(x, cache.dtype)[:, :, None]], axis=2)
        y = self.convolution(ops.reshape(window, (-1, self.reach + 1, self.hidden_size)))
        return ops.reshape(y, ops.shape(x)), window[:, :, 1:]
