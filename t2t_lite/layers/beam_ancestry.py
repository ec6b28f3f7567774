"""The cache of attention keys and values in decoding, and back-pointers that avoid copying it.

In each step, a search drops some hypotheses, and extends others once or several times. The cache entries of a position
stay in the beam that computed them, and a hypothesis finds them in its ancestors' beams.
"""

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


class BeamAncestry(NamedTuple):
    """The ancestry of the hypotheses at one position, `beam` hypotheses per sentence.

    `entries` states by cache entry what `ancestors` states by position: full attention reads the first as its mask,
    local attention the second, and layers that keep one state per hypothesis gather it by `parents`. Caches have one
    entry per beam and position, except those that `compact_ancestry` left out because no hypothesis needs them.

    An example of two beams: position 0 wrote the entries 0 and 1. If both hypotheses at position 1 extend beam 1
    (parents 1, 1), they see the entries {1, 2} and {1, 3}. If those at position 2 extend the beams 1 and 0, they see
    {1, 3, 4} and {1, 2, 5}, and their ancestors are (1, 1, 0) and (1, 0, 1).
    """

    parents: Array  # int [batch, beam], the beam of the previous position that each hypothesis extends
    # int [batch, beam, max_length], the beam that computed each position of a hypothesis: its own beam at the current
    # position, -1 at later ones
    ancestors: Array
    entries: Array  # bool [batch, beam, entries], the cache entries of each hypothesis, its current position included
    positions: Array  # int32 [batch, entries], the position of each cache entry
    place: Array  # int32 [], the cache entry of the current position in the first beam; the other beams' follow it

    @property
    def mask(self) -> Array:
        """The cache entries of each hypothesis as an attention mask, bool [batch, 1, beam, entries]."""
        return self.entries[:, None]


def initial_ancestry(batch: int | Array, beam_size: int, max_length: int | Array) -> BeamAncestry:
    """Returns the ancestry before position 0, the first input of `next_ancestry`: beams without ancestors."""
    beams = ops.broadcast_to(ops.arange(beam_size, dtype="int32"), (batch, beam_size))
    entries = max_length * beam_size
    return BeamAncestry(
        beams,
        ops.full((batch, beam_size, max_length), -1, dtype="int32"),
        ops.zeros((batch, beam_size, entries), "bool"),
        ops.zeros((batch, entries), "int32"),
        ops.convert_to_tensor(-beam_size, "int32"),  # position 0 then begins at entry 0
    )


def next_ancestry(ancestry: BeamAncestry, parents: Array, position: int | Array) -> BeamAncestry:
    """Returns the ancestry at an int `position`, whose hypotheses extend the beams `parents` of `ancestry`."""
    ancestors, entries = (_of_beams(each, parents) for each in (ancestry.ancestors, ancestry.entries))
    place = ancestry.place + parents.shape[1]
    moved = ancestry._replace(parents=parents, ancestors=ancestors, entries=entries, place=place)
    return _with_position(moved, position)


def grow_ancestry(ancestry: BeamAncestry, position: int | Array, max_length: int | Array) -> BeamAncestry:
    """Returns the ancestry with room for `max_length` positions, and with its entry for the current `position`."""
    more = max_length - ops.shape(ancestry.ancestors)[2]
    none, more_entries = (0, 0), (0, more * ancestry.parents.shape[1])
    larger = ancestry._replace(
        ancestors=ops.pad(ancestry.ancestors, (none, none, (0, more)), constant_values=-1),
        entries=ops.pad(ancestry.entries, (none, none, more_entries)),
        positions=ops.pad(ancestry.positions, (none, more_entries)),
    )
    return _with_position(larger, position)


def compact_ancestry(
    ancestry: BeamAncestry, position: int | Array, kept: Array, max_length: int | Array
) -> BeamAncestry:
    """Returns the ancestry for caches that contain only the entries `kept`, with room for `max_length` positions.

    Args:
      ancestry: at the current `position`.
      position: int scalar.
      kept: int32 [batch, entries], for each entry of the new caches an entry of the old ones before the current
        position, in order, or -1 for those of the current position and later ones. Every sentence keeps the same
        number, so some entries may belong to no hypothesis.
      max_length: int scalar.
    """
    is_kept, kept = kept >= 0, ops.maximum(kept, 0)
    of_kept = ops.take_along_axis(ancestry.entries, kept[:, None], axis=2)
    more = max_length - ops.shape(ancestry.ancestors)[2]
    compact = BeamAncestry(
        ancestry.parents,
        ops.pad(ancestry.ancestors, ((0, 0), (0, 0), (0, more)), constant_values=-1),
        ops.logical_and(of_kept, is_kept[:, None]),
        ops.where(is_kept, ops.take_along_axis(ancestry.positions, kept, axis=1), 0),
        ops.sum(ops.cast(is_kept[0], "int32")),
    )
    return _with_position(compact, position)


def _of_beams(x: Array, parents: Array) -> Array:
    """Returns the rows of the beams `parents`, [batch, beam, length], of an array of the same shape."""
    batch, beam, length = ops.shape(x)
    rows = parents + ops.arange(batch, dtype="int32")[:, None] * beam
    return ops.reshape(ops.take(ops.reshape(x, (-1, length)), rows, axis=0), (batch, beam, length))


def _with_position(ancestry: BeamAncestry, position: int | Array) -> BeamAncestry:
    """Sets what the current position has of its own: its own beam as ancestor, and its own cache entry."""
    beams = ops.arange(ancestry.parents.shape[1], dtype="int32")
    here = ops.arange(ops.shape(ancestry.ancestors)[2]) == position
    places = ops.arange(ops.shape(ancestry.entries)[2], dtype="int32") - ancestry.place
    is_here = ops.logical_and(places >= 0, places < beams.shape[0])
    return ancestry._replace(
        ancestors=ops.where(here, beams[:, None], ancestry.ancestors),
        entries=ops.logical_or(ancestry.entries, places == beams[:, None]),
        positions=ops.where(is_here, ops.cast(position, "int32"), ancestry.positions),
    )


def ancestry_mask(ancestors: Array) -> Array:
    """Returns which cache entries belong to each hypothesis, as a mask.

    Args:
      ancestors: int [batch, beam, length], from a `BeamAncestry`.

    Returns:
      bool [batch, 1, beam, length * beam]: an attention mask over the entries of all beams, ordered by position.
    """
    batch, beam, length = ops.shape(ancestors)
    own = ops.equal(ancestors[:, :, :, None], ops.arange(beam, dtype="int32"))
    return ops.reshape(own, (batch, 1, beam, length * beam))


def gather_parents(state: Array, ancestry: BeamAncestry) -> Array:
    """Returns the state of each hypothesis' parent, [batch, beam, ...], for states without a position axis."""
    parents = ops.reshape(ancestry.parents, (*ops.shape(ancestry.parents), *(1 for _ in state.shape[2:])))
    return ops.take_along_axis(state, parents, axis=1)
