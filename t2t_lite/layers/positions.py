"""Positional encodings: layers that add them to embeddings, and `rotate`, which applies them to queries and keys."""

import keras
import numpy as np

from t2t_lite.arrays import Array
from t2t_lite.layers.base import Layer, Shape
from t2t_lite.layers.ops import ops


def sinusoids(positions: Array, hidden_size: int) -> Array:
    """Returns PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(same), section 3.5 of the paper.

    Args:
      positions: int [length].
      hidden_size: d, number of channels, even.

    Returns:
      float32 [length, hidden_size], sines and cosines interleaved.

    Raises:
      ValueError: if hidden_size is odd.
    """
    if hidden_size % 2:
        raise ValueError(f"hidden_size {hidden_size} is odd, but sines and cosines come in pairs; use an even size")
    angles = _angles(positions, np.arange(0, hidden_size, 2) / hidden_size)
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # [length, hidden / 2, 2]
    return ops.reshape(pairs, (-1, hidden_size))


def sinusoidal_halves(positions: Array, hidden_size: int) -> Array:
    """Returns tensor2tensor's variant: all sines, then all cosines, with wavelengths up to 2 pi * 10000 inclusive.

    Channel i of a half has the exponent i / (d/2 - 1) instead of the paper's 2i / d.

    Args, returns: see `sinusoids`.
    """
    half = hidden_size // 2
    angles = _angles(positions, np.arange(half) / max(half - 1, 1))
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


def rotate(x: Array, positions: Array) -> Array:
    """Rotates each pair of channels by an angle that grows with the position (Su et al. 2021, arXiv 2104.09864).

    The product of a rotated query and a rotated key then depends only on their distance, not on their positions.
    This is equation 34 of that paper, except that channels i and i + size / 2 form a pair, which avoids interleaving.

    Args:
      x: float [batch, heads, length, size], size even.
      positions: int [length].

    Returns:
      float [batch, heads, length, size].
    """
    size = x.shape[-1]
    angles = _angles(positions, np.arange(0, size, 2) / size)  # [length, size / 2]
    sines, cosines = ops.cast(ops.sin(angles), x.dtype), ops.cast(ops.cos(angles), x.dtype)
    first, second = ops.split(x, 2, axis=-1)
    return ops.concatenate([first * cosines - second * sines, second * cosines + first * sines], axis=-1)


def _angles(positions: Array, exponents: np.ndarray) -> Array:
    """Returns pos / 10000^exponent, float32 [length, exponents]."""
    rates = np.power(10000.0, -exponents).astype("float32")
    return ops.cast(positions, "float32")[:, None] * rates[None, :]


@keras.saving.register_keras_serializable(package="t2t_lite")
class PositionEncoding(Layer):
    """Adds a vector for each position to embeddings. Subclasses define `encode`.

    Args:
      hidden_size: width of a vector.

    Call arguments:
      x: float [batch, length, hidden], positions 0 to length - 1.
      length: int, the length of x; None: read it from x. If a graph knows the length of the ids but not of their
        embeddings, pass it, so that the vectors are computed only once.
    """

    def __init__(self, hidden_size: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size

    def encode(self, positions: Array) -> Array:
        """Returns the vectors for `positions`, int [length]: float [length, hidden]."""
        raise NotImplementedError("a position encoding must define encode()")

    def call(self, x: Array, length: int | Array | None = None) -> Array:
        """Returns x plus the vectors of its positions, float [batch, length, hidden]."""
        return self._add(x, ops.arange(ops.shape(x)[1] if length is None else length))

    def step(self, x: Array, position: int | Array) -> Array:
        """Adds the vector of an int `position` to the embeddings of one decoding step, [batch, beam, hidden]."""
        return self._add(x, ops.reshape(position, (1,)))

    def _add(self, x: Array, positions: Array) -> Array:
        return x + ops.cast(self.encode(positions), x.dtype)


@keras.saving.register_keras_serializable(package="t2t_lite")
class SinusoidalPositions(PositionEncoding):
    """Adds the paper's `sinusoids`.

    Example:

    >>> ops.shape(SinusoidalPositions(hidden_size=8)(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    def encode(self, positions: Array) -> Array:
        """See `PositionEncoding`."""
        return sinusoids(positions, self.hidden_size)


@keras.saving.register_keras_serializable(package="t2t_lite")
class SinusoidalHalves(PositionEncoding):
    """Adds tensor2tensor's `sinusoidal_halves`.

    Args:
      hidden_size: see `PositionEncoding`.
      first: the number of the first position, from which OpenNMT-tf counts: 1.

    Example:

    >>> ops.shape(SinusoidalHalves(hidden_size=8)(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    def __init__(self, hidden_size: int, first: int = 0, **kwargs: object) -> None:
        super().__init__(hidden_size, **kwargs)
        self.first = first

    def encode(self, positions: Array) -> Array:
        """See `PositionEncoding`."""
        return sinusoidal_halves(positions + self.first, self.hidden_size)


@keras.saving.register_keras_serializable(package="t2t_lite")
class NoPositions(PositionEncoding):
    """Adds nothing, for encodings that are part of attention.

    Example:

    >>> ops.shape(NoPositions(hidden_size=8)(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    def _add(self, x: Array, positions: Array) -> Array:
        return x


@keras.saving.register_keras_serializable(package="t2t_lite")
class LearnedPositions(PositionEncoding):
    """A trainable vector for each position (table 3, row E; Gehring et al. 2017).

    Args:
      max_length: number of positions.
      hidden_size: width of a vector.

    Call arguments:
      x: float [batch, length, hidden].

    Example:

    >>> positions = LearnedPositions(max_length=10, hidden_size=8)
    >>> ops.shape(positions(ops.ones((2, 5, 8)))), ops.shape(positions.first(5)), ops.shape(positions.at(2))
    ((2, 5, 8), (5, 8), (1, 8))
    """

    def __init__(self, max_length: int, hidden_size: int, **kwargs: object) -> None:
        super().__init__(hidden_size, **kwargs)
        self.max_length = max_length

    def build(self, input_shape: Shape | None = None) -> None:
        """Creates the vectors, float32 [max_length, hidden]."""
        self.weight = self.add_weight(
            name="weight",
            shape=(self.max_length, self.hidden_size),
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_size**-0.5),
        )

    def call(self, x: Array, length: int | Array | None = None) -> Array:
        """Returns x plus the vectors of its positions, float [batch, length, hidden]."""
        return x + self.first(ops.shape(x)[1] if length is None else length)

    def step(self, x: Array, position: int | Array) -> Array:
        """Adds the vector of a position below max_length, see `PositionEncoding`."""
        return x + self.at(position)

    def first(self, length: int | Array) -> Array:
        """Returns the vectors of positions 0 to length - 1, float [length, hidden].

        Raises:
          ValueError: if `length` is above max_length. If it is known only when a graph runs, max_length vectors are
            returned instead, and adding them to a longer sequence causes a shape error.
        """
        if isinstance(length, int) and length > self.max_length:
            raise ValueError(f"{length} positions are more than max_length={self.max_length}; shorten the sequences")
        self.build_once()
        return ops.cast(self.weight[:length], self.compute_dtype)

    def at(self, position: int | Array) -> Array:
        """Returns the vector of one position below max_length, an int scalar: float [1, hidden]."""
        self.build_once()
        return ops.cast(ops.take(self.weight, ops.reshape(position, (1,)), axis=0), self.compute_dtype)
