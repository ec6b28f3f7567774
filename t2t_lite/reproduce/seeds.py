"""Computes means over seeds with intervals, and intervals of differences between rows.

The variance over seeds is assumed to be the same in all rows, as in an analysis of variance. With three seeds per row,
one row alone gives a poor estimate of the variance, and intervals would be 2.5 times as wide.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Mean:
    """A mean with its interval. `margin` is None if no row has several seeds."""

    value: float
    margin: float | None

    @property
    def low(self) -> float:
        return self.value - (math.inf if self.margin is None else self.margin)

    @property
    def high(self) -> float:
        return self.value + (math.inf if self.margin is None else self.margin)


class Seeds:
    def __init__(self, figures: Mapping[str, Sequence[float]]) -> None:
        self._figures = {row: np.asarray(values, float) for row, values in figures.items() if len(values)}
        self._freedom = sum(len(values) - 1 for values in self._figures.values())
        squares = sum(float(((values - values.mean()) ** 2).sum()) for values in self._figures.values())
        self.deviation = math.sqrt(squares / self._freedom) if self._freedom else None

    def __contains__(self, row: str) -> bool:
        return row in self._figures

    def mean(self, row: str) -> Mean:
        values = self._figures[row]
        return Mean(float(values.mean()), self._margin(1 / len(values)))

    def difference(self, row: str, other: str) -> Mean:
        values, others = self._figures[row], self._figures[other]
        return Mean(float(values.mean() - others.mean()), self._margin(1 / len(values) + 1 / len(others)))

    def _margin(self, variance: float) -> float | None:
        if self.deviation is None:
            return None
        from scipy.special import stdtrit

        return float(stdtrit(self._freedom, (1 + LEVEL) / 2)) * self.deviation * math.sqrt(variance)
