"""The cache of attention keys and values during decoding."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from t2t_lite.arrays import Array
from t2t_lite.layers.ops import dynamic_shape, ops

# (array, place, part, axis) -> the array with `part` written at `place` along an axis, -1 or -2.
Write: TypeAlias = Callable[[Array, int | Array, Array, int], Array]


def _written(array: Array, place: int | Array, part: Array, axis: int) -> Array:
    """Returns a new array with `part` written at `place` along an axis, -1 or -2."""
    start = [0] * len(array.shape)
    start[axis] = place
    return ops.slice_update(array, start, part)


_write: contextvars.ContextVar[Write] = contextvars.ContextVar("write", default=_written)


@contextlib.contextmanager
def entries_written_by(write: Write) -> Iterator[None]:
    """Makes `write` write the cache entries inside the block."""
    token = _write.set(write)
    try:
        yield
    finally:
        _write.reset(token)


class Cache(NamedTuple):
    """Keys and values by position. In decoding, each position has adjacent entries, one per beam.

    Keys are stored transposed, because the product with queries is then four times as fast on a CPU.
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
        write = _write.get()
        return Cache(write(self.keys, place, keys, -1), write(self.values, place, values, -2))

    def compact(self, kept: Array) -> "Cache":
        """Returns a cache of the entries `kept`, int32 [batch, kept]; entries of -1 have any content."""
        batch, heads, size, length = dynamic_shape(self.keys)
        kept = ops.maximum(kept, 0)
        # Whole rows are copied, because that is faster than single numbers, even if keys must be transposed for it.
        rows = ops.reshape(ops.arange(batch, dtype="int32"), (batch, 1))
        keys = ops.reshape(ops.transpose(self.keys, (0, 3, 1, 2)), (batch * length, heads * size))
        keys = ops.transpose(ops.take(keys, rows * length + kept, axis=0), (0, 2, 1))
        rows = ops.reshape(ops.arange(batch * heads, dtype="int32"), (batch, heads, 1))
        values = ops.reshape(self.values, (batch * heads * length, self.values.shape[-1]))
        values = ops.take(values, rows * length + kept[:, None], axis=0)
        return Cache(ops.reshape(keys, (batch, heads, size, -1)), values)
