"""The cache of keys and values for attention in decoding."""

from typing import NamedTuple

from t2t_lite.arrays import Array
from t2t_lite.keras_ops import ops


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
        keys = ops.cast(ops.swapaxes(keys, -1, -2), self.keys.dtype)
        return Cache(
            ops.slice_update(self.keys, (0, 0, 0, place), keys),
            ops.slice_update(self.values, (0, 0, place, 0), ops.cast(values, self.values.dtype)),
        )
