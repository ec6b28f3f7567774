"""Statistics of the records of a split: how long they are, and why pairs were dropped."""

import collections
from dataclasses import dataclass, field

from t2t_lite.data.problem import SIDES

LONGER = "longer"  # of a pair's sides: what training compares with max_length


@dataclass
class Statistics:
    """What became of some pairs.

    Args:
      dropped: how many were left out, by the reason.
      lengths: of "inputs", "targets" and the "longer" of both, how many records have so many tokens, end symbols
        included.
    """

    dropped: collections.Counter = field(default_factory=collections.Counter)
    lengths: dict[str, collections.Counter] = field(
        default_factory=lambda: {side: collections.Counter() for side in (*SIDES, LONGER)}
    )

    @property
    def examples(self) -> int:
        """How many records were made."""
        return sum(self.lengths["inputs"].values())

    @property
    def pairs(self) -> int:
        """How many pairs there were."""
        return self.examples + sum(self.dropped.values())

    def add(self, other: "Statistics") -> "Statistics":
        """Takes in other statistics and returns itself."""
        self.dropped.update(other.dropped)
        for side, lengths in other.lengths.items():
            self.lengths[side].update(lengths)
        return self

    def as_json(self) -> dict:
        """Returns what `from_json` takes."""
        return {
            "dropped": dict(sorted(self.dropped.items())),
            "lengths": {
                side: {str(n): count for n, count in sorted(lengths.items())} for side, lengths in self.lengths.items()
            },
        }

    @classmethod
    def from_json(cls, stored: dict) -> "Statistics":
        """Returns the statistics that `as_json` was made of."""
        lengths = stored["lengths"]
        return cls(
            collections.Counter(stored["dropped"]),
            {side: collections.Counter({int(n): count for n, count in of.items()}) for side, of in lengths.items()},
        )
