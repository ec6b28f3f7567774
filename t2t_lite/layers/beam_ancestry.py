"""Back-pointers between the hypotheses of a search, which avoid copying cached states.

In each step, a search drops some hypotheses, and extends others once or several times. The cache entries of a position
stay in the beam that computed them, and a hypothesis finds them in its ancestors' beams.
"""

from typing import NamedTuple

from t2t_lite.arrays import Array
from t2t_lite.layers.ops import ops


class BeamAncestry(NamedTuple):
    """The ancestry of the hypotheses at one position, `beam` hypotheses per sentence."""

    parents: Array  # int [batch, beam], the beam of the previous position that each hypothesis extends
    # int [batch, beam, max_length], the beam that computed each position of a hypothesis: its own beam at the current
    # position, -1 at later ones
    ancestors: Array


def initial_ancestry(batch: int | Array, beam_size: int, max_length: int | Array) -> BeamAncestry:
    """Returns the ancestry before position 0, the first input of `next_ancestry`: beams without ancestors."""
    beams = ops.broadcast_to(ops.arange(beam_size, dtype="int32"), (batch, beam_size))
    return BeamAncestry(beams, ops.full((batch, beam_size, max_length), -1, dtype="int32"))


def next_ancestry(ancestry: BeamAncestry, parents: Array, position: int | Array) -> BeamAncestry:
    """Returns the ancestry at an int `position`, whose hypotheses extend the beams `parents` of `ancestry`."""
    beams = ops.arange(parents.shape[1], dtype="int32")[None, :, None]
    ancestors = ops.take_along_axis(ancestry.ancestors, parents[:, :, None], axis=1)
    here = ops.arange(ops.shape(ancestors)[2]) == position
    return BeamAncestry(parents, ops.where(here, beams, ancestors))


def grow_ancestry(ancestry: BeamAncestry, position: int | Array, max_length: int | Array) -> BeamAncestry:
    """Returns the ancestry with room for `max_length` positions, and with its entry for the current `position`."""
    more = max_length - ops.shape(ancestry.ancestors)[2]
    ancestors = ops.pad(ancestry.ancestors, ((0, 0), (0, 0), (0, more)), constant_values=-1)
    beams = ops.arange(ancestors.shape[1], dtype="int32")[None, :, None]
    return BeamAncestry(ancestry.parents, ops.where(ops.arange(max_length) == position, beams, ancestors))


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
