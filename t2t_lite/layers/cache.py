"""The cache of keys and values for attention in decoding."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import NamedTuple

from t2t_lite.arrays import Array
from t2t_lite.keras_ops import ops

_scatters = contextvars.ContextVar("scatters", default=False)


@contextlib.contextmanager
def scattered_entries() -> Iterator[None]:
    """Lets caches be written by scattering inside the block, for graphs that XLA does not compile.

    The operation that writes a slice belongs to XLA in TensorFlow, and would be compiled for every shape of a cache.
    """
    token = _scatters.set(True)
    try:
        yield
    finally:
        _scatters.reset(token)


class Cache(NamedTuple):
    """Keys and values of positions. In decoding a position has one entry per beam, next to each other.

    Keys are stored transposed, as their product with queries needs them, which is four times as fast on a CPU.
    """

    keys: Array  # float [batch, heads, key size, length]
    values: Array  # float [batch, heads, length, value size]

    @property
    def keys_values(self) -> tuple[Array, Array]:
        """Keys and values, both [batch, heads, length, size]."""
        return ops.swapaxes(self.keys, -1, -2), self.values

    @classmethod
    def of(cls, keys: Array, values: Array) -> "Cache":
        """Returns a cache of keys and values [batch, heads, length, size]."""
        return cls(ops.swapaxes(keys, -1, -2), values)

    def with_entries(self, place: int | Array, keys: Array, values: Array) -> "Cache":
        """Returns the cache with keys and values of one position, [batch, heads, beam, size], written at `place`."""
        keys, values = ops.cast(ops.swapaxes(keys, -1, -2), self.keys.dtype), ops.cast(values, self.values.dtype)
        if _scatters.get():
            return Cache(_scattered(self.keys, place, keys, -1), _scattered(self.values, place, values, -2))
        return Cache(
            ops.slice_update(self.keys, (0, 0, 0, place), keys),
            ops.slice_update(self.values, (0, 0, place, 0), values),
        )


def _scattered(array: Array, place: int | Array, part: Array, axis: int) -> Array:
    """Returns the array with `part` written at `place` along an axis, -1 or -2; the part's size there divides `place`.

    The array is seen as a list of blocks of the part's size, and those at the place are replaced.
    """
    shape, size = ops.shape(array), part.shape[axis]
    width = size if axis == -1 else size * part.shape[-1]
    blocks = ops.reshape(array, (-1, width))
    in_each = shape[axis] // size
    rows = ops.arange(ops.shape(blocks)[0] // in_each) * in_each + place // size
    return ops.reshape(ops.scatter_update(blocks, rows[:, None], ops.reshape(part, (-1, width))), shape)
