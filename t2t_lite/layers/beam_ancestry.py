"""How the hypotheses of a search descend from one another, so that what was computed for them need not be copied.

In each step a search keeps some hypotheses, drops others and extends some twice. What a layer keeps of earlier
positions lies in the beam in which it was computed, and stays there; a hypothesis looks it up in its ancestors' beams.
"""

from typing import Any, NamedTuple

from keras import ops


class BeamAncestry(NamedTuple):
    """The hypotheses of one position, `beam` for each sentence."""

    parents: Any  # int [batch, beam], the beam of the position before that each hypothesis extends
    # int [batch, beam, max_length], the beam in which each position of a hypothesis was computed, its own at the
    # position of this step; -1 at later ones
    ancestors: Any


def initial_ancestry(batch, beam_size, max_length):
    """Returns what `next_ancestry` takes as the ancestry before position 0: beams without ancestors."""
    beams = ops.broadcast_to(ops.arange(beam_size, dtype="int32"), (batch, beam_size))
    return BeamAncestry(beams, ops.full((batch, beam_size, max_length), -1, dtype="int32"))


def next_ancestry(ancestry, parents, position):
    """Returns the ancestry at an int `position` whose hypotheses extend those of `ancestry` in the given order."""
    beams = ops.arange(parents.shape[1], dtype="int32")[None, :, None]
    ancestors = ops.take_along_axis(ancestry.ancestors, parents[:, :, None], axis=1)
    here = ops.arange(ops.shape(ancestors)[2]) == position
    return BeamAncestry(parents, ops.where(here, beams, ancestors))


def grow_ancestry(ancestry, position, max_length):
    """Returns the ancestry of a position with room for `max_length` positions; it may be the first that was wanting."""
    more = max_length - ops.shape(ancestry.ancestors)[2]
    ancestors = ops.pad(ancestry.ancestors, ((0, 0), (0, 0), (0, more)), constant_values=-1)
    beams = ops.arange(ancestors.shape[1], dtype="int32")[None, :, None]
    return BeamAncestry(ancestry.parents, ops.where(ops.arange(max_length) == position, beams, ancestors))


def ancestry_mask(ancestors):
    """Returns which of all beams' entries belong to a hypothesis.

    Args:
      ancestors: int [batch, beam, length], as a `BeamAncestry` has them.

    Returns:
      bool [batch, 1, beam, length * beam]: an attention mask over entries that lie position by position.
    """
    batch, beam, length = ops.shape(ancestors)
    own = ops.equal(ancestors[:, :, :, None], ops.arange(beam, dtype="int32"))
    return ops.reshape(own, (batch, 1, beam, length * beam))


def gather_parents(state, ancestry):
    """Gives each hypothesis the state of the one that it extends, [batch, beam, ...]: a state that has no positions."""
    parents = ops.reshape(ancestry.parents, (*ops.shape(ancestry.parents), *(1 for _ in state.shape[2:])))
    return ops.take_along_axis(state, parents, axis=1)
