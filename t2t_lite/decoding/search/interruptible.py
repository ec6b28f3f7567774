"""Searches in short parts, between which the caller can look around and end them."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

# How long a part should take.
_SECONDS = 0.25
ALL_STEPS = 2**30  # more than any search has

State = TypeVar("State")


class Interruptible(Generic[State]):
    """Runs the steps of searches in parts that take about a quarter of a second each, but at least one step.

    Args:
      check: called after each part; what it raises ends the search. None: all steps are one part.
    """

    def __init__(self, check: Callable[[], None] | None) -> None:
        self._check = check
        self._steps = 1 if check else ALL_STEPS

    def check(self) -> None:
        """Calls the caller's function, if there is one."""
        if self._check:
            self._check()

    def run(self, advance: Callable[[State, int], State], state: State, is_over: Callable[[State], bool]) -> State:
        """Returns the state after the last part.

        Args:
          advance: makes at most a given number of steps.
          state: the state before the first of them.
          is_over: whether a state is the last one.
        """
        while True:
            start = time.perf_counter()
            state = advance(state, self._steps)
            if self._check is None:
                return state
            is_last = is_over(state)  # waits for the device
            self._check()
            if is_last:
                return state
            taken = time.perf_counter() - start
            if taken > _SECONDS:
                self._steps = max(1, self._steps // 2)
            elif taken < _SECONDS / 2:
                self._steps *= 2
