"""Statistics of the records of a split: length histograms, and how many pairs were dropped for which reason."""

import collections
from dataclasses import dataclass, field

from t2t_lite.data.manifest import StatisticsEntry
from t2t_lite.data.problem import SIDES

LONGER = "longer"  # the longer side of a pair, whose length training compares with max_length


@dataclass
class Statistics:
    """Statistics of pairs and their records."""

    # number of dropped pairs, by drop reason
    dropped: collections.Counter[str] = field(default_factory=collections.Counter)
    # number of kept pairs whose source is also in another split, by split
    overlap: collections.Counter[str] = field(default_factory=collections.Counter)
    # for "inputs", "targets" and the "longer" of both, a histogram of lengths in tokens, end symbol included
    lengths: dict[str, collections.Counter[int]] = field(
        default_factory=lambda: {side: collections.Counter() for side in (*SIDES, LONGER)}
    )

    @property
    def examples(self) -> int:
        """Number of records."""
        return sum(self.lengths["inputs"].values())

    @property
    def pairs(self) -> int:
        """Number of pairs, dropped ones included."""
        return self.examples + sum(self.dropped.values())

    def add(self, other: "Statistics") -> "Statistics":
        """Adds other statistics and returns self."""
        self.dropped.update(other.dropped)
        self.overlap.update(other.overlap)
        for side, lengths in other.lengths.items():
            self.lengths[side].update(lengths)
        return self

    def as_json(self) -> StatisticsEntry:
        """Returns a JSON-compatible dict, the inverse of `from_json`."""
        return {
            "dropped": dict(sorted(self.dropped.items())),
            "overlap": dict(sorted(self.overlap.items())),
            "lengths": {
                side: {str(n): count for n, count in sorted(lengths.items())} for side, lengths in self.lengths.items()
            },
        }

    @classmethod
    def from_json(cls, stored: StatisticsEntry) -> "Statistics":
        """Returns statistics from the dict of `as_json`."""
        lengths = stored["lengths"]
        return cls(
            collections.Counter(stored["dropped"]),
            collections.Counter(stored.get("overlap", {})),  # 0.8 did not count it
            {side: collections.Counter({int(n): count for n, count in of.items()}) for side, of in lengths.items()},
        )
